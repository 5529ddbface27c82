"""The enqueue pipeline where jobs come in: over HTTP and by the application object."""

from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.client.application import Headgate
from headgate.client.authorizer import EnqueueContext
from headgate.client.circuit_breaker import CircuitBreaker
from headgate.client.hooks import EnqueueHook, EnqueueOutcome, EnqueueRejected, EnqueueSucceeded
from headgate.client.middleware import EnqueueMode, EnqueueRequest, Next
from headgate.client.pipeline import EnqueuePipeline
from headgate.client.plugins import EnqueuePlugin
from headgate.model.access import Identity
from headgate.model.envelope import Envelope
from headgate.model.errors import (
    CircuitOpen,
    EnqueueForbidden,
    InvalidRequest,
    MiddlewareError,
    StoreUnavailable,
)
from headgate.model.job import Enqueued, Job, JobFilter
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.contract.client import Answer, Client
from tests.contract.jobs import PLAIN
from tests.contract.test_walk import contents

NOWHERE: Final = "postgresql://nobody@127.0.0.1:1/nothing"
FORBIDDEN: Final = {**PLAIN, "kind": "billing:charge"}


def only_plain(job: Envelope, context: EnqueueContext) -> bool:
    return job.kind == PLAIN["kind"]


class Recorder(EnqueueHook):
    def __init__(self) -> None:
        self.requests: list[EnqueueRequest] = []
        self.outcomes: list[EnqueueOutcome] = []

    def on_begin(self, request: EnqueueRequest) -> None:
        self.requests.append(request)

    def on_end(self, request: EnqueueRequest, outcome: EnqueueOutcome) -> None:
        self.outcomes.append(outcome)


async def post_job(client: Client, job: Any) -> Answer:
    return await client.request("POST", "/jobs", json=job)


async def post_batch(client: Client, job: Any) -> Answer:
    return await client.request("POST", "/jobs/batch", json={"jobs": [PLAIN, job]})


async def run_schedule(client: Client, job: Any) -> Answer:
    # Made behind the pipeline's back, as one that was there before its authorizer.
    schedule = {"kind": job["kind"], "spec": "@every:60000"}
    store: Store = client.app.state.test_store  # type: ignore[attr-defined] # put there below
    plain = Client(create_app(store))
    assert (await plain.request("PUT", "/periodic/x", json=schedule)).status == 200
    return await client.request("POST", "/periodic/x/run")


ways = pytest.mark.parametrize("way", [post_job, post_batch, run_schedule])


def client_of(store: Store, config: ApiConfig) -> Client:
    app = create_app(store, config)
    app.state.test_store = store
    return Client(app)


@ways
async def test_a_denied_job_is_403_and_nothing_is_written(store: Store, way: Any) -> None:
    recorder = Recorder()
    client = client_of(store, ApiConfig(authorizer=only_plain, hooks=(recorder,)))
    assert (await way(client, PLAIN)).status in (201, 202)
    assert len(recorder.outcomes) == 1
    jobs = len((await client.get("/jobs")).json()["jobs"])
    answer = await way(client, FORBIDDEN)
    expected: dict[str, Any] = {"error": "enqueue forbidden", "kind": "billing:charge"}
    if way is post_batch:
        expected["index"] = 1
    assert (answer.status, answer.json()) == (403, expected)
    assert len((await client.get("/jobs")).json()["jobs"]) == jobs
    assert len(recorder.outcomes) == 1


async def test_a_denied_schedule_is_403_and_not_stored(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(authorizer=only_plain)))
    schedule = {"kind": "billing:charge", "spec": "@every:60000"}
    before = await contents(store)
    answer = await client.request("PUT", "/periodic/x", json=schedule)
    assert (answer.status, answer.json()["error"]) == (403, "enqueue forbidden")
    assert await contents(store) == before
    # What is wrong with it is told before whether it is allowed.
    answer = await client.request("PUT", "/periodic/x", json={**schedule, "spec": "whenever"})
    assert answer.status == 400


@ways
async def test_the_same_middleware_hooks_and_plugins_stand_in_every_way(
    store: Store, way: Any
) -> None:
    around: list[tuple[str, int]] = []

    async def middleware(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        around.append((request.context.source, len(request.jobs)))
        for job in request.jobs:
            job.queue = "moved"
        return await call_next(request)

    recorder, scoped = Recorder(), Recorder()
    config = ApiConfig(
        middleware=(middleware,),
        hooks=(recorder,),
        plugins=(EnqueuePlugin("scoped", hooks=[scoped], kinds=[PLAIN["kind"]]),),
    )
    client = client_of(store, config)
    assert (await way(client, PLAIN)).status in (201, 202)
    jobs = (await client.get("/jobs")).json()["jobs"]
    assert {job["queue"] for job in jobs} == {"moved"}
    assert around == [("http", len(jobs))]
    for hook in (recorder, scoped):
        (outcome,) = hook.outcomes
        assert isinstance(outcome, EnqueueSucceeded)
        assert {job.id for job in outcome.jobs} == {job["id"] for job in jobs}


@ways
async def test_a_middleware_may_refuse_in_its_own_words(store: Store, way: Any) -> None:
    async def refusing(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        raise MiddlewareError("no jobs on Sundays")

    client = client_of(store, ApiConfig(middleware=(refusing,)))
    answer = await way(client, PLAIN)
    assert (answer.status, answer.json()) == (500, {"error": "no jobs on Sundays"})


async def test_what_a_middleware_gets_wrong_says_nothing(store: Store) -> None:
    async def broken(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        raise RuntimeError("password is hunter2")

    client = Client(create_app(store, ApiConfig(middleware=(broken,))))
    answer = await post_job(client, PLAIN)
    assert (answer.status, answer.json()["error"]) == (500, "internal error")


@pytest.mark.parametrize("way", [post_job, post_batch])
async def test_the_circuit_opens_and_the_store_is_left_alone(way: Any) -> None:
    now = [0]
    recorder = Recorder()
    breaker = CircuitBreaker(failure_threshold=2, recovery_timeout_ms=500, clock_ms=lambda: now[0])
    async with Store(StoreSettings(dsn=NOWHERE)) as store:
        config = ApiConfig(circuit_breaker=breaker, hooks=(recorder,))
        client = Client(create_app(store, config))
        for _ in range(2):
            answer = await way(client, PLAIN)
            assert answer.status == 503
            assert answer.json()["error"].startswith("store unavailable: ")
        now[0] = 100
        answer = await way(client, PLAIN)
        assert (answer.status, answer.json()) == (
            503,
            {"error": "enqueue circuit open", "retry_after_ms": 400, "state": "open"},
        )
        # What is wrong with the body is found before, and reads are not concerned.
        assert (await way(client, {"kind": 7})).status == 422
        assert (await client.get("/jobs")).json()["error"].startswith("store unavailable: ")
    assert len(recorder.outcomes) == 2
    assert all(isinstance(outcome, EnqueueRejected) for outcome in recorder.outcomes)


async def test_refusals_of_the_store_do_not_open_the_circuit(store: Store) -> None:
    breaker = CircuitBreaker(failure_threshold=1)
    client = Client(create_app(store, ApiConfig(circuit_breaker=breaker)))
    await client.request("PUT", "/queues/q/enqueue-limit", json={"max_unfinished_jobs": 0})
    assert (await post_job(client, {**PLAIN, "queue": "q"})).status == 429
    assert (await post_job(client, {**PLAIN, "kind": "a b"})).status == 400
    assert (await post_batch(client, {**PLAIN, "queue": "q"})).status == 429
    assert breaker.snapshot().state == "closed"


# The application object


@pytest.fixture
async def app(headgate_database: str) -> AsyncIterator[Headgate]:
    pipeline = EnqueuePipeline(authorizer=only_plain)
    async with Headgate(dsn=headgate_database, pipeline=pipeline) as opened:
        yield opened


async def jobs_of(app: Headgate) -> list[Job]:
    return (await app.store.inspection.jobs(JobFilter(), cursor=None, limit=10)).jobs


async def test_the_application_passes_the_same_pipeline(app: Headgate) -> None:
    @app.task("t.k")
    async def allowed() -> None: ...

    @app.task("billing:charge")
    async def denied() -> None: ...

    await allowed.enqueue(identity=Identity("ada"))
    with pytest.raises(EnqueueForbidden):
        await denied.enqueue()
    with pytest.raises(EnqueueForbidden):
        await app.enqueue_many([allowed.job(), denied.job()])
    assert len(await jobs_of(app)) == 1


async def test_a_transaction_of_the_callers_passes_it_too(headgate_database: str) -> None:
    recorder = Recorder()
    asked: list[EnqueueContext] = []

    def authorizer(job: Envelope, context: EnqueueContext) -> bool:
        asked.append(context)
        return only_plain(job, context)

    pipeline = EnqueuePipeline(authorizer=authorizer, hooks=[recorder])
    app = Headgate(dsn=headgate_database, pipeline=pipeline)
    job = Envelope(kind="t.k")
    connection = await asyncpg.connect(headgate_database)
    try:
        with pytest.raises(InvalidRequest, match="not in a transaction"):
            await app.enqueue(job, connection=connection)
        async with connection.transaction():
            enqueued = await app.enqueue(job, connection=connection, identity=Identity("ada"))
            with pytest.raises(EnqueueForbidden):
                await app.enqueue(Envelope(kind="other"), connection=connection)
            with pytest.raises(InvalidRequest, match="a request key needs"):
                await app.enqueue(job, connection=connection, request_key="k")
        found = await connection.fetchval(
            "SELECT count(*) FROM headgate_job WHERE ulid = $1", enqueued.id
        )
        assert found == 1
    finally:
        await connection.close()
    assert {request.mode for request in recorder.requests} == {EnqueueMode.TRANSACTIONAL}
    assert asked[1].identity == Identity("ada")


async def test_a_rollback_takes_the_jobs_back(app: Headgate, headgate_database: str) -> None:
    url = headgate_database.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        await app.enqueue_many([Envelope(kind="t.k")] * 2, connection=connection)
        await connection.rollback()
    await engine.dispose()
    assert await jobs_of(app) == []


async def test_an_open_circuit_of_the_application() -> None:
    pipeline = EnqueuePipeline(circuit_breaker=CircuitBreaker(failure_threshold=1))
    async with Headgate(dsn=NOWHERE, pipeline=pipeline) as app:
        with pytest.raises(StoreUnavailable):
            await app.enqueue(Envelope(kind="t.k"))
        with pytest.raises(CircuitOpen):
            await app.enqueue(Envelope(kind="t.k"))
