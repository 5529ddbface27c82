"""What a reader does with the code of a page once it is there."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from types import ModuleType
from typing import Any, Final

import asyncpg
import httpx
from sqlalchemy.ext.asyncio import create_async_engine

from headgate import Store, StoreSettings
from headgate.testing import advance_time, drain, perform

Exercise = Callable[[ModuleType, str], Coroutine[Any, Any, None]]


async def transactions(page: ModuleType, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE orders (number int, customer text)")
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    await page.place(engine, 7, "ada")
    await engine.dispose()
    assert await connection.fetchval("SELECT count(*) FROM orders") == 1
    assert await connection.fetchval("SELECT kind FROM headgate_job") == "order:ship"
    await connection.close()


async def workflows(page: ModuleType, dsn: str) -> None:
    async with page.app, Store(StoreSettings(dsn=dsn)) as store:
        await page.start_import("today", ["a", "b"])
        found = await store.workflows.workflow("import-today")
        assert found is not None
        while await drain(page.app, store):
            await advance_time(store, 1_000)
        reported = await page.app.wait("import-today:import:report")
        assert reported.value(int) == 2
        # A `def` handler reads the same.
        ids = [node.job_id for node in found.nodes if node.name in ("a", "b")]
        assert (await perform(page.total, store, ids)).result == b"2"
    assert {node.name: node.dependencies for node in found.nodes} == {
        "import:list": [],
        "a": ["import:list"],
        "b": ["import:list"],
        "import:report": ["a", "b"],
    }


async def encryption(page: ModuleType, dsn: str) -> None:
    async with page.app, Store(StoreSettings(dsn=dsn)) as store:
        enqueued = await page.send.enqueue({"number": 7})
        job = await store.inspection.job(enqueued.id, include_payload=True)
        assert job is not None
        assert await page.config.revealer(job, None) == b'{"number":7}'


async def schedules(page: ModuleType, dsn: str) -> None:
    async with page.app:
        await page.app.sync_schedules()
    assert set(page.app.schedules) == {"report:daily", "tidy_up"}


async def fastapi(page: ModuleType, dsn: str) -> None:
    transport = httpx.ASGITransport(page.web)
    async with (
        page.lifespan(page.web),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        answer = await client.post("/signups/ada@example.com")
        assert answer.status_code == 202
        shown = await client.get(f"/jobs/api/v1/jobs/{answer.json()['job']}")
        assert shown.json()["kind"] == "mail:welcome"


async def flask(page: ModuleType, dsn: str) -> None:
    answer = await asyncio.to_thread(page.web.test_client().post, "/signups/ada@example.com")
    assert answer.status_code == 202
    await enqueued(dsn, answer.get_json()["job"])


async def django(page: ModuleType, dsn: str) -> None:
    answer = await asyncio.to_thread(page.sign_up, None, "ada@example.com")
    assert answer.status_code == 202
    await enqueued(dsn, json.loads(answer.content)["job"])


async def testing(page: ModuleType, dsn: str) -> None:
    mail_server = sys.modules["shop.jobs"].mail_server
    async with Store(StoreSettings(dsn=dsn)) as store:
        page.app.bind(store)
        # On one database, so what leaves a job behind comes last.
        await page.test_a_receipt_is_sent_again_after_an_hour(store, mail_server)
        await page.test_an_import_is_reported(store)
        await page.test_a_vendor_is_asked_once_a_second(store)
        await page.test_an_order_sends_a_receipt(store)


async def limits(page: ModuleType, dsn: str) -> None:
    async with Store(StoreSettings(dsn=dsn)) as store:
        await page.set_limits(store)
        assert (await store.policies.rate_class("smtp")).burst == 200
        assert (await store.policies.concurrency_limit("two-per-customer")).max_concurrent == 2


async def enqueued(dsn: str, job_id: str) -> None:
    async with Store(StoreSettings(dsn=dsn)) as store:
        job = await store.inspection.job(job_id)
    assert job is not None
    assert job.kind == "mail:welcome"


EXERCISES: Final[Mapping[str, Exercise]] = {
    "docs/how-to/django.md": django,
    "docs/how-to/encryption.md": encryption,
    "docs/how-to/fastapi.md": fastapi,
    "docs/how-to/flask.md": flask,
    "docs/how-to/limits.md": limits,
    "docs/how-to/schedules.md": schedules,
    "docs/how-to/testing.md": testing,
    "docs/how-to/transactions.md": transactions,
    "docs/how-to/workflows.md": workflows,
}
