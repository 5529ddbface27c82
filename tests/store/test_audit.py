"""The audit trail: written with the change, read newest first."""

import pytest

from headgate.model.audit import AuditEntry, AuditPage, AuditRecord
from headgate.model.errors import InvalidRequest
from headgate.store.store import Store
from tests.store.rows import Observer, now_ms


def record(target: str = "q", **fields: object) -> AuditRecord:
    given = {
        "identity": "ada",
        "role": "operator",
        "method": "POST",
        "route": "/queues/{queue}/pause",
        "target": target,
        "idempotency_key": "key",
        "status": 204,
        **fields,
    }
    return AuditRecord(**given)  # type: ignore[arg-type]  # tests give what fits


async def test_an_entry_is_stamped_by_the_database(store: Store, observer: Observer) -> None:
    assert await store.audit.page() == AuditPage([], None)
    before = await now_ms(observer)
    await store.audit.append(record("q\0é", status=404))
    [entry] = (await store.audit.page()).entries
    assert before <= entry.at_ms <= await now_ms(observer)
    assert entry == AuditEntry(
        id=entry.id,
        at_ms=entry.at_ms,
        identity="ada",
        role="operator",
        method="POST",
        route="/queues/{queue}/pause",
        target="qé",
        idempotency_key="key",
        status=404,
    )


async def test_a_long_text_is_cut(store: Store) -> None:
    await store.audit.append(record("x" * 100_000))
    [entry] = (await store.audit.page()).entries
    assert len(entry.target) == 1_024
    assert entry.target.endswith("x [cut]")


async def test_pages_newest_first(store: Store) -> None:
    for number in range(7):
        await store.audit.append(record(str(number)))
    for limit in (1, 2, 3, 6, 7, 8):
        seen: list[str] = []
        cursor: int | None = None
        while True:
            page = await store.audit.page(limit=limit, cursor=cursor)
            seen += [entry.target for entry in page.entries]
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page.entries) == limit
        assert seen == list("6543210")


@pytest.mark.parametrize("cursor", [0, 2**63, 2**64])
async def test_any_cursor(store: Store, cursor: int) -> None:
    await store.audit.append(record())
    assert len((await store.audit.page(cursor=cursor)).entries) == (1 if cursor else 0)


@pytest.mark.parametrize("limit", [0, 201, -1])
async def test_what_a_page_cannot_be(store: Store, limit: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.audit.page(limit=limit)
    assert refused.value.message == "limit must be between 1 and 200"


async def failing(store: Store) -> None:
    async with store.database.transaction() as session:
        view = store.within(session)
        await view.queues.pause("q")
        await view.audit.append(record())
        raise ZeroDivisionError


async def test_an_entry_shares_the_fate_of_its_change(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        await failing(store)
    assert (await store.audit.page()).entries == []
