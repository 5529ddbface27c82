"""Mutations that are repeated: each acts once and is answered alike."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest
from sqlalchemy import delete, func, select, update
from starlette.responses import Response

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.api.operations import Answer as DocumentedAnswer
from headgate.api.operations import Operation, operation
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response
from headgate.api.table import OPERATIONS
from headgate.client.workflow import Workflow
from headgate.model.access import AccessToken, Role, hash_token
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest, StoreUnavailable
from headgate.model.idempotency import MutationRequest
from headgate.model.job import WorkerBeat
from headgate.store.store import Store
from headgate.tables import (
    audit,
    compatibility,
    idempotency,
    job,
    metadata,
    quarantine,
    queue_state,
)
from tests.contract.client import Answer, Client
from tests.contract.jobs import PLAIN, enqueue
from tests.contract.test_walk import contents

SCHEDULE: Final = {"kind": "t.k", "spec": "@every:60000"}
RATE: Final = {"limit": 5, "window_ms": 1000}
CEILING: Final = {"queue": "q", "max_concurrent": 1, "on_saturated": "queue"}
SELECTOR: Final = {"action": "cancel", "selector": {"queue": "q"}}

KEPT: Final = frozenset({idempotency, audit, compatibility})

Prepare = Callable[[Client, Store], Awaitable[object]]


async def nothing(client: Client, store: Store) -> None:
    """What is there before a mutation that needs nothing."""


async def a_job(client: Client, store: Store) -> None:
    await enqueue(client, "x", queue="q")


async def a_cancelled_job(client: Client, store: Store) -> None:
    await a_job(client, store)
    await client.request("POST", "/jobs/x/cancel")


async def a_pending_job(client: Client, store: Store) -> None:
    await enqueue(client, "x", pending=True)


async def a_scheduled_job(client: Client, store: Store) -> None:
    await enqueue(client, "x", scheduled_at_ms=253402300799999)


async def an_operation(client: Client, store: Store) -> None:
    answer = await client.request("POST", "/jobs/bulk", json=SELECTOR)
    operations = metadata.tables["headgate_operation"]
    await store.database.fetch(
        update(operations).where(operations.c.id == answer.json()["id"]).values(id="x")
    )


async def a_rate_class(client: Client, store: Store) -> None:
    await client.request("PUT", "/rate-classes/x", json=RATE)


async def a_ceiling(client: Client, store: Store) -> None:
    await client.request("PUT", "/concurrency-limits/x", json=CEILING)


async def a_quarantine(client: Client, store: Store) -> None:
    await store.database.fetch(
        quarantine.insert().values(
            fingerprint="x", kind="t.k", crash_count=3, quarantined_at_ms=1, reason="crashed"
        )
    )


async def a_schedule(client: Client, store: Store) -> None:
    await client.request("PUT", "/periodic/x", json=SCHEDULE)


async def a_worker(client: Client, store: Store) -> None:
    await store.workers.heartbeat(
        WorkerBeat(
            worker_id="x",
            host="h",
            pid=1,
            queues=("q",),
            concurrency=1,
            inflight=0,
            polls=0,
            empty_polls=0,
        )
    )


async def a_workflow(client: Client, store: Store) -> None:
    workflow = Workflow("x")
    workflow.add(Envelope(kind="t.k"), name="node")
    await store.producer.enqueue(workflow.jobs())


async def a_failed_workflow(client: Client, store: Store) -> None:
    await a_workflow(client, store)
    await store.control.cancel("x:node")


async def a_limit(client: Client, store: Store) -> None:
    await client.request("PUT", "/queues/x/enqueue-limit", json={"max_unfinished_jobs": 5})


MUTATIONS: Final[Mapping[str, tuple[Prepare, Any, int]]] = {
    "enqueue_batch": (nothing, {"jobs": [PLAIN, {**PLAIN, "id": "second"}]}, 201),
    "retry_job": (a_cancelled_job, None, 204),
    "cancel_job": (a_job, None, 204),
    "promote_job": (a_pending_job, None, 204),
    "reschedule_job": (a_scheduled_job, {"scheduled_at_ms": 253402300000000}, 204),
    "edit_payload": (a_job, {"payload": "AAAA"}, 204),
    "delete_job": (a_job, None, 204),
    "act_on_jobs": (a_job, {"action": "cancel", "ids": ["x", "y"]}, 200),
    "act_in_bulk": (a_job, SELECTOR, 202),
    "cancel_operation": (an_operation, None, 202),
    "set_queue_weight": (nothing, {"weight": 3}, 200),
    "delete_queue": (a_limit, None, 204),
    "pause_queue": (nothing, None, 204),
    "resume_queue": (nothing, None, 204),
    "set_enqueue_limit": (nothing, {"max_unfinished_jobs": 3}, 200),
    "clear_enqueue_limit": (a_limit, None, 204),
    "sample_queue_memory": (a_job, {}, 200),
    "put_rate_class": (nothing, RATE, 200),
    "delete_rate_class": (a_rate_class, None, 204),
    "put_concurrency_limit": (nothing, CEILING, 200),
    "delete_concurrency_limit": (a_ceiling, None, 204),
    "release_fingerprint": (a_quarantine, None, 204),
    "put_schedule": (nothing, SCHEDULE, 200),
    "delete_schedule": (a_schedule, None, 204),
    "pause_schedule": (a_schedule, None, 204),
    "resume_schedule": (a_schedule, None, 204),
    "signal_worker": (a_worker, {"command": "quiet"}, 204),
    "retry_workflow": (a_failed_workflow, {"expected_revision": 1}, 204),
    "cancel_workflow": (a_workflow, None, 204),
}
"""What is there before, the body, and the status of success."""

DEDUPLICATED: Final = {"enqueue_job", "run_schedule"}
NAMED: Final = {operation.name: operation for operation in OPERATIONS}


async def mutate(client: Client, name: str, *, key: str = "once", **changes: Any) -> Answer:
    """Carries out a mutation of the table on the thing that is called x."""
    mutation = NAMED[name]
    path = mutation.path.removeprefix("/api/v1")
    for parameter in mutation.path_parameters:
        path = path.replace("{" + parameter + "}", "x")
    body = changes.get("json", MUTATIONS[name][1])
    return await client.request(mutation.method, changes.get("path", path), json=body, key=key)


async def empty(store: Store) -> None:
    """Takes away everything but the records of what was done."""
    for table in reversed(metadata.sorted_tables):
        if table not in KEPT:
            await store.database.fetch(delete(table))


async def number_of(store: Store, table: Any) -> int:
    (row,) = await store.database.fetch(select(func.count().label("n")).select_from(table))
    count: int = row["n"]
    return count


def test_every_mutation_is_in_the_table() -> None:
    mutations = {each.name for each in OPERATIONS if each.mutates}
    assert mutations == set(MUTATIONS) | DEDUPLICATED
    assert {each.name for each in OPERATIONS if each.replays} == set(MUTATIONS) - {"enqueue_batch"}


@pytest.mark.parametrize("name", MUTATIONS)
async def test_a_repetition_acts_not_again_and_is_answered_alike(
    client: Client, store: Store, name: str
) -> None:
    prepare, _, status = MUTATIONS[name]
    await prepare(client, store)
    before = await contents(store)
    first = await mutate(client, name)
    assert first.status == status, first
    assert "idempotency-replayed" not in first.headers
    after = await contents(store)
    assert after != before
    assert await number_of(store, idempotency) >= 1
    # Whatever it would do or find now would be something else than what it did.
    await empty(store)
    emptied = await contents(store)
    second = await mutate(client, name)
    assert (second.status, second.body) == (first.status, first.body)
    assert second.headers.pop("idempotency-replayed") == "true"
    assert without_request(second.headers) == without_request(first.headers)
    assert await contents(store) == emptied


def without_request(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "x-request-id"}


@pytest.mark.parametrize("name", MUTATIONS)
async def test_ten_at_once_act_once(client: Client, store: Store, name: str) -> None:
    prepare, _, status = MUTATIONS[name]
    await prepare(client, store)
    jobs, entries = await number_of(store, job), await number_of(store, audit)
    answers = await asyncio.gather(*(mutate(client, name) for _ in range(10)))
    done = [answer for answer in answers if answer.status == status]
    waiting = [answer for answer in answers if answer.status != status]
    assert sum("idempotency-replayed" not in answer.headers for answer in done) == 1
    for answer in waiting:
        assert (answer.status, answer.json()) == (
            409,
            {"error": "a request with this idempotency key is in progress"},
        )
    created = {"enqueue_batch": 2, "delete_job": -1}.get(name, 0)
    assert await number_of(store, job) == jobs + created
    audited = await number_of(store, audit) - entries
    assert audited == (0 if name == "enqueue_batch" else 1)


# The same key for something else


async def test_a_key_is_for_one_request_of_a_route(client: Client) -> None:
    reused = (422, {"error": "idempotency key was used with a different request"})
    await mutate(client, "set_queue_weight", json={"weight": 3})
    for changes in ({"json": {"weight": 4}}, {"path": "/queues/y"}, {"path": "/queues/x?a=b"}):
        answer = await mutate(client, "set_queue_weight", **changes)
        assert (answer.status, answer.json()) == reused
    batch = {"jobs": [PLAIN]}
    assert (await mutate(client, "enqueue_batch", json=batch)).status == 201
    answer = await mutate(client, "enqueue_batch", json={"jobs": [PLAIN, PLAIN]})
    assert (answer.status, answer.json()) == reused


async def test_other_routes_methods_and_callers_have_keys_of_their_own(store: Store) -> None:
    names = ("ada", "bob")
    tokens = tuple(
        AccessToken(token_hash=hash_token(name.encode()), identity=name, role=Role.ADMIN)
        for name in names
    )
    client = Client(create_app(store, ApiConfig(tokens=tokens)))
    for name in names:
        for method, path in (
            ("POST", "/queues/x/pause"),
            ("POST", "/queues/x/resume"),
            ("DELETE", "/queues/x/enqueue-limit"),
            ("DELETE", "/queues/x"),
        ):
            answer = await client.request(
                method, path, key="same", headers=[("authorization", f"Bearer {name}")]
            )
            assert (answer.status, answer.headers.get("idempotency-replayed")) == (204, None)
    assert await number_of(store, audit) == 8


async def test_what_cannot_be_read_uses_no_key_up(client: Client, store: Store) -> None:
    for body in (b"{", b"{}", b'{"weight":"x"}'):
        answer = await client.request(
            "PUT",
            "/queues/x",
            key="once",
            body=body,
            headers=[("content-type", "application/json")],
        )
        assert answer.status in (400, 422)
    assert await number_of(store, idempotency) == 0
    assert (await mutate(client, "set_queue_weight")).status == 200


# Refusals


@pytest.mark.parametrize(
    ("name", "json", "status"),
    [
        ("set_queue_weight", {"weight": 0}, 400),
        ("retry_job", None, 404),
        ("delete_rate_class", None, 404),
        ("act_in_bulk", {"action": "explode", "selector": {"queue": "q"}}, 400),
    ],
)
async def test_a_refusal_for_good_is_repeated(
    client: Client, store: Store, name: str, json: Any, status: int
) -> None:
    first = await mutate(client, name, json=json)
    assert first.status == status
    await a_rate_class(client, store)
    second = await mutate(client, name, json=json)
    assert (second.status, second.body) == (first.status, first.body)
    assert second.headers["idempotency-replayed"] == "true"
    entries = (await store.audit.page()).entries
    assert [entry.status for entry in entries if entry.idempotency_key == "once"] == [status]


async def test_a_batch_that_was_refused_for_good_is_refused_again(client: Client) -> None:
    await enqueue(client, "x")
    batch = {"jobs": [PLAIN, {**PLAIN, "id": "x", "kind": "t.other"}]}
    first = await mutate(client, "enqueue_batch", json=batch)
    assert (first.status, first.json()) == (409, {"error": "id conflict: job x", "index": 1})
    await client.request("DELETE", "/jobs/x")
    second = await mutate(client, "enqueue_batch", json=batch)
    assert (second.status, second.json()) == (409, first.json())
    assert second.headers["idempotency-replayed"] == "true"


async def test_a_full_queue_is_asked_again(client: Client) -> None:
    await client.request("PUT", "/queues/q/enqueue-limit", json={"max_unfinished_jobs": 1})
    batch = {"jobs": [{**PLAIN, "queue": "q"}] * 2}
    assert (await mutate(client, "enqueue_batch", json=batch)).status == 429
    await client.request("DELETE", "/queues/q/enqueue-limit")
    answer = await mutate(client, "enqueue_batch", json=batch)
    assert (answer.status, "idempotency-replayed" in answer.headers) == (201, False)


async def test_a_denied_schedule_is_judged_again(store: Store) -> None:
    denied = [True]
    config = ApiConfig(authorizer=lambda job, context: not denied[0])
    client = Client(create_app(store, config))
    assert (await mutate(client, "put_schedule")).status == 403
    assert await number_of(store, idempotency) == 0
    denied[0] = False
    assert (await mutate(client, "put_schedule")).status == 200


# One transaction


class Breaking:
    """A mutation that pauses a queue and then ends as it is told."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def operation(self) -> Operation:
        @operation("POST", "/broken/{queue}", DocumentedAnswer(204, "Done."))
        async def break_it(request: ApiRequest, queue: str) -> Response:
            """Break."""
            await request.store.queues.pause(queue)
            await request.store.producer.enqueue([])
            if self.error is not None:
                raise self.error
            return empty_response()

        return break_it


@pytest.fixture
def breaking() -> Breaking:
    return Breaking()


@pytest.fixture
def breakable(store: Store, breaking: Breaking) -> Client:
    return Client(create_app(store, operations=[breaking.operation()]))


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreUnavailable("away"), 503), (RuntimeError("a bug"), 500), (asyncio.CancelledError(), 0)],
    ids=["outage", "fault", "client gone"],
)
async def test_whatever_breaks_it_leaves_nothing_behind(
    breakable: Client, breaking: Breaking, store: Store, error: BaseException, status: int
) -> None:
    before = await contents(store)
    breaking.error = error
    try:
        answer = await breakable.request("POST", "/broken/x", key="once")
        assert answer.status == status
    except asyncio.CancelledError:
        assert status == 0
    assert await contents(store) == before
    breaking.error = None
    answer = await breakable.request("POST", "/broken/x", key="once")
    assert (answer.status, "idempotency-replayed" in answer.headers) == (204, False)
    assert await number_of(store, audit) == 1


async def test_a_refusal_undoes_what_was_begun_and_is_kept(
    breakable: Client, breaking: Breaking, store: Store
) -> None:
    breaking.error = InvalidRequest("on second thoughts, no")
    answers = [await breakable.request("POST", "/broken/x", key="once") for _ in range(2)]
    assert [answer.status for answer in answers] == [400, 400]
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert await number_of(store, queue_state) == 0
    assert [entry.status for entry in (await store.audit.page()).entries] == [400]


async def test_without_the_record_there_is_no_entry_either(
    breakable: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("away")

    before = await contents(store)
    monkeypatch.setattr(store.idempotency, "keep", fail)
    assert (await breakable.request("POST", "/broken/x")).status == 503
    assert await contents(store) == before


async def test_a_process_that_dies_leaves_no_key_in_progress(client: Client, store: Store) -> None:
    request = MutationRequest(
        identity="", method="POST", route="/api/v1/queues/{queue}/pause", key="once", content=()
    )
    async with store.database.transaction() as session:
        await store.idempotency.lock(session, request)
        waiting = await mutate(client, "pause_queue")
        assert waiting.status == 409
        other = await mutate(client, "pause_queue", key="another")
        assert other.status == 204
    # Its transaction is over, whether it was committed or its connection was lost.
    assert (await mutate(client, "pause_queue")).status == 204


async def test_repetitions_of_a_batch_pass_the_authorizer(store: Store) -> None:
    allowed = [True]
    config = ApiConfig(authorizer=lambda job, context: allowed[0])
    client = Client(create_app(store, config))
    assert (await mutate(client, "enqueue_batch")).status == 201
    allowed[0] = False
    answer = await mutate(client, "enqueue_batch")
    assert (answer.status, answer.json()) == (
        403,
        {"error": "enqueue forbidden", "index": 0, "kind": "t.k"},
    )


# Enqueues have their own memory


async def test_one_job_for_a_run_of_a_schedule(client: Client, store: Store) -> None:
    await a_schedule(client, store)
    answers = [await client.request("POST", "/periodic/x/run", key="once") for _ in range(3)]
    assert [answer.status for answer in answers] == [202] * 3
    assert [answer.json().get("replayed", False) for answer in answers] == [False, True, True]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert "idempotency-replayed" not in answers[1].headers
    await client.request("DELETE", f"/jobs/{answers[0].json()['id']}")
    again = await client.request("POST", "/periodic/x/run", key="once")
    assert again.json() == {"id": answers[0].json()["id"], "replayed": True}
    assert await number_of(store, job) == 0
