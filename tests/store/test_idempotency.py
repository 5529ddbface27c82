"""A mutation that is repeated acts once and is answered alike."""

import asyncio
from typing import Any

import pytest

from headgate.model.audit import AuditRecord
from headgate.model.envelope import Envelope
from headgate.model.errors import (
    InvalidRequest,
    RequestInProgress,
    RequestKeyReused,
    StoreUnavailable,
)
from headgate.model.idempotency import Answered, MutationRequest, StoredAnswer
from headgate.model.lifecycle import State
from headgate.store.database import Session
from headgate.store.idempotency import Work
from headgate.store.store import Store
from tests.store.journeys import bring
from tests.store.rows import Observer, state_of
from tests.store.test_queues import queues

DAY_MS = 24 * 3_600_000
DONE = StoredAnswer(status=204, headers={"x-released-jobs": "3", "é": '"'}, body=b"\0\xff")


def request(**fields: Any) -> MutationRequest:
    given = {
        "identity": "ada",
        "method": "POST",
        "route": "/queues/{queue}/pause",
        "key": "key",
        "content": (b"/queues/q/pause", b"", b"{}"),
        **fields,
    }
    return MutationRequest(**given)


class Counted:
    """Work that counts how often it was done, in the database and here."""

    def __init__(self, store: Store, answer: StoredAnswer = DONE) -> None:
        self.calls = 0
        self._store = store
        self._answer = answer

    async def __call__(self, session: Session) -> StoredAnswer:
        self.calls += 1
        await self._store.within(session).queues.set_weight("q", self.calls)
        return self._answer


async def weight(store: Store) -> int | None:
    found = await queues(store)
    return found["q"].weight if "q" in found else None


async def test_a_repetition_gets_the_same_answer(store: Store) -> None:
    work = Counted(store)
    assert await store.idempotency.once(request(), work) == Answered(DONE)
    for _ in range(2):
        assert await store.idempotency.once(request(), work) == Answered(DONE, replayed=True)
    assert (work.calls, await weight(store)) == (1, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"key": "other"},
        {"identity": "grace"},
        {"method": "PUT"},
        {"route": "/queues/{queue}/resume"},
    ],
)
async def test_another_request(store: Store, other: dict[str, str]) -> None:
    work = Counted(store)
    await store.idempotency.once(request(), work)
    assert not (await store.idempotency.once(request(**other), work)).replayed
    assert work.calls == 2


@pytest.mark.parametrize(
    "content",
    [
        (b"/queues/other/pause", b"", b"{}"),
        (b"/queues/q/pause", b"x=1", b"{}"),
        (b"/queues/q/pause", b"", b"{ }"),
        (b"/queues/q/pause", b"{}", b""),
        (b"/queues/q/pause{}", b"", b""),
    ],
)
async def test_the_key_of_something_else(store: Store, content: tuple[bytes, ...]) -> None:
    work = Counted(store)
    await store.idempotency.once(request(), work)
    with pytest.raises(RequestKeyReused) as refused:
        await store.idempotency.once(request(content=content), work)
    assert str(refused.value) == "idempotency key was used with a different request"
    assert work.calls == 1


async def test_while_it_is_being_done(store: Store) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def slow(session: Session) -> StoredAnswer:
        begun.set()
        await finish.wait()
        return DONE

    first = asyncio.create_task(store.idempotency.once(request(), slow))
    await begun.wait()
    work = Counted(store)
    for repeated in (request(), request(content=(b"other",))):
        with pytest.raises(RequestInProgress) as refused:
            await store.idempotency.once(repeated, work)
        assert str(refused.value) == "a request with this idempotency key is in progress"
    assert not (await store.idempotency.once(request(key="other"), work)).replayed
    finish.set()
    assert await first == Answered(DONE)
    assert await store.idempotency.once(request(), work) == Answered(DONE, replayed=True)
    assert work.calls == 1


async def test_a_crash_leaves_nothing_in_progress(store: Store, observer: Observer) -> None:
    begun = asyncio.Event()

    async def stuck(session: Session) -> StoredAnswer:
        await store.within(session).queues.set_weight("q", 9)
        begun.set()
        await asyncio.Event().wait()
        return DONE

    task = asyncio.create_task(store.idempotency.once(request(), stuck))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    work = Counted(store)

    async def repeated() -> Answered:
        # The server notices the end of the connection in its own time.
        for _ in range(500):
            try:
                return await store.idempotency.once(request(), work)
            except RequestInProgress:
                await asyncio.sleep(0.01)
        raise AssertionError("still in progress")

    assert await repeated() == Answered(DONE)
    assert await weight(store) == 1


async def test_many_at_once_act_once(store: Store) -> None:
    work = Counted(store)
    found = await asyncio.gather(
        *(store.idempotency.once(request(), work) for _ in range(20)), return_exceptions=True
    )
    answers = [each for each in found if isinstance(each, Answered)]
    assert [each.replayed for each in answers].count(False) == 1
    assert all(isinstance(each, Answered | RequestInProgress) for each in found)
    assert work.calls == 1


@pytest.mark.parametrize("status", [200, 201, 202, 204, 400, 404, 409, 415, 422])
async def test_what_would_be_repeated_is_kept(store: Store, status: int) -> None:
    work = Counted(store, StoredAnswer(status=status, body=b"x"))
    await store.idempotency.once(request(), work)
    assert (await store.idempotency.once(request(), work)).replayed


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_what_may_be_otherwise_the_next_time_is_not(store: Store, status: int) -> None:
    work = Counted(store, StoredAnswer(status=status))
    for _ in range(2):
        assert not (await store.idempotency.once(request(), work)).replayed


async def test_an_error_undoes_everything(store: Store) -> None:
    async def failing(session: Session) -> StoredAnswer:
        await Counted(store)(session)
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        await store.idempotency.once(request(), failing)
    assert await weight(store) is None
    assert not (await store.idempotency.once(request(), Counted(store))).replayed


def refusing(store: Store, record: AuditRecord) -> Work:
    """What the control API does with a refusal: its change is undone, its answer is kept."""

    async def change(session: Session) -> StoredAnswer:
        await store.within(session).queues.set_weight("q", 9)
        raise InvalidRequest("no")

    async def work(session: Session) -> StoredAnswer:
        try:
            answer = await session.transact(change)
        except InvalidRequest as refused:
            answer = StoredAnswer(status=400, body=refused.message.encode())
        await store.within(session).audit.append(record)
        return answer

    return work


async def test_a_refusal_is_kept_with_its_audit_entry_and_without_its_change(
    store: Store,
) -> None:
    record = AuditRecord(
        identity="ada",
        role="admin",
        method="PUT",
        route="/queues/{queue}",
        target="q",
        idempotency_key="key",
        status=400,
    )
    refused = StoredAnswer(status=400, body=b"no")
    work = refusing(store, record)
    assert await store.idempotency.once(request(), work) == Answered(refused)
    assert await store.idempotency.once(request(), work) == Answered(refused, replayed=True)
    assert await weight(store) is None
    assert len((await store.audit.page()).entries) == 1


async def test_an_answer_is_kept_for_a_day(store: Store, observer: Observer) -> None:
    work = Counted(store)
    await store.idempotency.once(request(), work)
    for age_ms, replayed in ((DAY_MS - 60_000, True), (DAY_MS + 1, False)):
        await observer.execute(
            "UPDATE headgate_idempotency SET recorded_at_ms ="
            " (extract(epoch from clock_timestamp()) * 1000)::bigint - $1::bigint",
            age_ms,
        )
        assert (await store.idempotency.once(request(), work)).replayed == replayed
    other = request(content=(b"other",))
    with pytest.raises(RequestKeyReused):
        await store.idempotency.once(other, work)
    await observer.execute("UPDATE headgate_idempotency SET recorded_at_ms = 0")
    assert not (await store.idempotency.once(other, work)).replayed
    assert (await store.idempotency.once(other, work)).replayed


async def test_any_port_may_take_part(store: Store, observer: Observer) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail"), State.ARCHIVED)

    async def work(session: Session) -> StoredAnswer:
        await store.within(session).control.retry(job_id)
        return DONE

    await store.idempotency.once(request(), work)
    assert await state_of(observer, job_id) == "available"


async def test_queues_are_woken_after_the_commit(store: Store, observer: Observer) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail", queue="q"), State.ARCHIVED)
    heard: list[set[str]] = []
    store.notifier.wake = lambda queues, **_: heard.append(set(queues))  # type: ignore[method-assign]

    async def work(session: Session) -> StoredAnswer:
        await store.within(session).control.retry(job_id)
        assert heard == []
        return DONE

    await store.idempotency.once(request(), work)
    assert heard == [{"q"}]


async def test_installations_in_one_database_do_not_meet(store: Store) -> None:
    numbers = {request().lock_number(schema) for schema in ("public", "jobs")}
    numbers |= {request(key=key).lock_number("public") for key in ("a", "b")}
    numbers.add(request(identity="adak", key="ey").lock_number("public"))
    assert len(numbers) == 5
    assert all(-(2**63) <= number < 2**63 for number in numbers)


async def test_without_the_database(store: Store) -> None:
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.idempotency.once(request(), Counted(store))
