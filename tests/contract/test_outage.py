"""The database goes away and comes back; what needs none goes on, and nothing is restarted."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import delete, insert

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.api.operations import Operation
from headgate.api.table import OPERATIONS
from headgate.model.access import Identity
from headgate.model.job import Job
from headgate.store.migration import upgrade
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.tables import compatibility
from tests.contract.client import Client
from tests.contract.samples import call, target
from tests.contract.wire import Wire
from tests.worker.waiting import eventually

JOB = {"kind": "t.k", "payload": "e30="}
NO_CONNECTION = {"error": "store unavailable: no connection: the database does not answer"}


@pytest.fixture
async def wire(headgate_database: str) -> AsyncIterator[Wire]:
    wire = Wire(headgate_database)
    await wire.open()
    yield wire
    await wire.cut()


@pytest.fixture
async def client(wire: Wire) -> AsyncIterator[Client]:
    async with Store(StoreSettings(dsn=wire.dsn)) as store:
        yield Client(create_app(store))


async def assert_away(client: Client) -> None:
    for path in ("/healthz", "/meta", "/openapi.json", "/docs"):
        assert (await client.get(path)).status == 200
    for path in ("/readyz", "/jobs", "/jobs/x"):
        answer = await client.get(path)
        assert (answer.status, answer.json()) == (503, NO_CONNECTION)
    answer = await client.request("POST", "/jobs", json=JOB)
    assert (answer.status, answer.json()) == (503, NO_CONNECTION)
    # What is wrong with a request does not depend on the weather.
    for change, message in (
        ({"kind": "bad kind"}, "invalid kind `bad kind`"),
        ({"payload": "!"}, "payload must be base64"),
        ({"queue": "\0"}, "queue must not contain NUL"),
    ):
        answer = await client.request("POST", "/jobs", json={**JOB, **change})
        assert answer.status == 400
        assert answer.json()["error"].startswith(message)
    assert (await client.request("POST", "/jobs", json={})).status == 422
    assert (await client.get("/jobs?q=bogus:x")).status == 400
    assert (await client.get("/jobs?cursor=x")).status == 400


async def never_asked(job: Job, identity: Identity | None) -> bytes:
    """Opens payloads, were there a job to open one of."""
    raise AssertionError(f"{identity} asks for {job.id}")


async def is_ready(client: Client) -> bool:
    return (await client.get("/readyz")).status == 200


async def test_it_starts_without_the_database_and_outlives_two_outages(
    client: Client, wire: Wire
) -> None:
    await assert_away(client)
    for turn in range(2):
        await wire.mend()
        await eventually(lambda: is_ready(client))
        answer = await client.request("POST", "/jobs", json={**JOB, "id": f"job-{turn}"})
        assert answer.status == 201
        assert (await client.get(f"/jobs/job-{turn}")).status == 200
        await wire.cut()
        await assert_away(client)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
async def test_every_operation_tells_of_the_outage(operation: Operation) -> None:
    async with Store(StoreSettings(dsn="postgresql://nobody@127.0.0.1:1/nothing")) as store:
        client = Client(create_app(store, ApiConfig(revealer=never_asked)), prefix="")
        answer = await call(client, operation, target(operation))
    if operation.uses_store:
        assert (answer.status, answer.json()) == (503, NO_CONNECTION)
    else:
        assert answer.status == 200


async def test_a_schema_that_is_missing_is_waited_for(empty_database: str) -> None:
    async with Store(StoreSettings(dsn=empty_database)) as store:
        client = Client(create_app(store))
        for path in ("/readyz", "/jobs"):
            answer = await client.get(path)
            assert answer.status == 503
            assert answer.json()["error"].startswith(
                "store unavailable: schema public has no tables of Headgate"
            )
        assert (await client.get("/healthz")).status == 200
        await upgrade(empty_database)
        await eventually(lambda: is_ready(client))


async def test_a_schema_of_newer_code_is_not_touched(store: Store) -> None:
    client = Client(create_app(store))
    newer = {"revision": "9998", "minimum_revision": "9999"}
    await store.database.fetch(insert(compatibility).values(**newer))
    answer = await client.request("POST", "/jobs", json=JOB)
    assert answer.status == 503
    assert "works with code of revision 9999 or newer" in answer.json()["error"]
    await store.database.fetch(delete(compatibility).where(compatibility.c.revision == "9998"))
    assert (await client.request("POST", "/jobs", json=JOB)).status == 201
