"""Reading jobs beyond the shared cases: pages, bounds, payloads."""

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.store.store import Store
from tests.contract.client import Client


async def enqueue(client: Client, job_id: str, **fields: object) -> None:
    body = {"id": job_id, "kind": "t.k", "payload": "e30=", **fields}
    assert (await client.request("POST", "/jobs", json=body)).status == 201


async def listed(client: Client, query: str) -> tuple[list[str], str | None]:
    answer = await client.get(f"/jobs?{query}")
    assert answer.status == 200, answer
    page = answer.json()
    assert page["count_is_approximate"] is False
    return [job["id"] for job in page["jobs"]], page["next_cursor"]


async def test_pages_walk_every_job_once_newest_first(client: Client) -> None:
    for number in range(7):
        await enqueue(client, f"job-{number}")
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(9):
        ids, cursor = await listed(client, "limit=3" + (f"&cursor={cursor}" if cursor else ""))
        seen += ids
        if cursor is None:
            break
    assert seen == [f"job-{number}" for number in reversed(range(7))]


async def test_a_limit_is_bounded_in_silence(client: Client) -> None:
    for number in range(3):
        await enqueue(client, f"job-{number}")
    assert len((await listed(client, "limit=0"))[0]) == 1
    assert len((await listed(client, "limit=4294967295"))[0]) == 3


async def test_cursors_that_lead_nowhere(client: Client) -> None:
    await enqueue(client, "job")
    for cursor in ("-1", "0", "-9223372036854775808"):
        assert await listed(client, f"cursor={cursor}") == ([], None)
    assert (await listed(client, "cursor=9223372036854775807"))[0] == ["job"]
    for cursor in ("", "x", "1.0", "9223372036854775808", "1_0", "%201", "%D9%A1"):
        answer = await client.get(f"/jobs?cursor={cursor}")
        assert (answer.status, answer.json()) == (400, {"error": "bad cursor"}), cursor


async def test_lists_never_carry_payloads(client: Client) -> None:
    await enqueue(client, "job")
    (job,) = (await client.get("/jobs?include_payload=true")).json()["jobs"]
    assert not {"payload", "metadata"} & set(job)


async def test_payloads_can_be_kept_back(client: Client, store: Store) -> None:
    await enqueue(client, "job")
    closed = Client(create_app(store, ApiConfig(payloads=False)))
    refused = await closed.get("/jobs/job?include_payload=true")
    assert (refused.status, refused.json()) == (403, {"error": "forbidden"})
    assert (await closed.get("/jobs/job?include_payload=false")).status == 200


async def test_search_text_that_means_nothing_finds_nothing(client: Client) -> None:
    await enqueue(client, "job")
    for text in ("7", "'", '"', "%25", "_", "%2525", "\\", "%00", "kind:%00", "x" * 10_000,
                 "id:%F0%9F%98%80", "tag:", "%E2%80%A8%E3%80%80x", "%1C"):  # fmt: skip
        assert await listed(client, f"q={text}") == ([], None), text
    # Words of the pattern languages of SQL are letters like any other.
    await enqueue(client, "odd", kind="100_percent")
    assert (await listed(client, "q=100_"))[0] == ["odd"]
    assert (await listed(client, "q=100%25"))[0] == []
