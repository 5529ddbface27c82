"""The examples, run as a reader would run them."""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg
import httpx
import pytest

from headgate import Store
from headgate.model.policy import RateClassPolicy
from headgate.testing import advance_time, drain

EXAMPLES = Path(__file__).parents[2] / "examples"

Load = Callable[[str], Any]


@pytest.fixture
def load(headgate_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports an example on the database of the test."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", headgate_database)
    loaded: list[str] = []

    def run(name: str) -> ModuleType:
        unique = f"example_{name}"
        spec = importlib.util.spec_from_file_location(unique, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[unique] = module
        loaded.append(unique)
        spec.loader.exec_module(module)
        return module

    yield run
    for name in loaded:
        del sys.modules[name]


async def test_an_order_and_its_job_are_there_together(
    load: Load, store: Store, headgate_database: str
) -> None:
    shop = load("shop")
    observer = await asyncpg.connect(headgate_database)
    transport = httpx.ASGITransport(shop.web)
    async with (
        shop.lifespan(shop.web),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as client,
    ):
        bought = await client.post("/orders/ada/500")
        refused = await client.post("/orders/ada/500000")
        assert (bought.status_code, refused.status_code) == (201, 402)
        assert await observer.fetchval("SELECT count(*) FROM shop_order") == 1
        (job,) = await observer.fetch("SELECT kind, partition_key FROM headgate_job")
        assert tuple(job) == ("shop:confirm", "ada")
        await drain(shop.jobs, store, queues=["mail"])
    confirmed = await observer.fetch("SELECT number FROM shop_confirmation")
    assert [row["number"] for row in confirmed] == [bought.json()["number"]]
    await observer.close()


async def test_a_small_customer_does_not_wait_for_a_large_one(load: Load, store: Store) -> None:
    importer = load("importer")
    importer.app.bind(store)
    await importer.submit("large", [f"{number}.csv" for number in range(20)])
    await importer.submit("small", ["one.csv", "two.csv"])
    await importer.submit("small", ["one.csv", "two.csv"])
    await drain(importer.app, store, queues=["imports"], concurrency=1)
    assert len(importer.imported) == 22
    assert [place for place, name in enumerate(importer.imported) if name == "small"][-1] < 6


async def test_the_vendor_is_not_asked_more_than_it_allows(load: Load, store: Store) -> None:
    vendor = load("vendor")
    vendor.app.bind(store)
    await store.policies.put_rate_class("vendor", RateClassPolicy(limit=6, window_ms=3_600_000))
    calls: list[list[str]] = []

    async def count(addresses: list[str]) -> int:
        calls.append(addresses)
        return 1

    vendor.call = count
    for number in range(6):
        await vendor.ask([f"street {number}"] * 2)
    await drain(vendor.app, store, queues=["lookups"], concurrency=1)
    # Each is charged two units and gives one back, and the last unit is not enough for two.
    assert len(calls) == 5


async def test_a_vendor_that_refuses_costs_nothing(load: Load, store: Store) -> None:
    vendor = load("vendor")
    vendor.app.bind(store)
    refusals = [vendor.TooManyRequests(500)]

    async def refuse_once(addresses: list[str]) -> int:
        if refusals:
            raise refusals.pop()
        return 1

    vendor.call = refuse_once
    await vendor.ask(["street"])
    (refused,) = await drain(vendor.app, store, queues=["lookups"])
    assert refused.outcome == "rate_limited"
    await advance_time(store, 1_000)
    (done,) = await drain(vendor.app, store, queues=["lookups"])
    assert done.outcome == "success"
    job = await store.inspection.job(done.job_id)
    assert job is not None
    assert job.attempt == 0


async def test_a_crawl_goes_on_where_it_stopped(
    load: Load, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawler = load("crawler")
    crawler.app.bind(store)
    for name in "abcde":
        (tmp_path / f"{name}.txt").write_text(name * 10)
    read: list[str] = []
    broken = ["c.txt"]
    real = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name in broken:
            broken.remove(path.name)
            raise OSError("the disk is away")
        if path.parent == tmp_path:
            read.append(path.name)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    await crawler.crawl.enqueue(crawler.Crawl(str(tmp_path)), id="crawl")
    await drain(crawler.app, store, queues=["crawls"])
    assert read == ["a.txt", "b.txt"]
    await advance_time(store, 60_000)
    await drain(crawler.app, store, queues=["crawls"])
    assert read == ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"]
    result = await store.artifacts.result("crawl")
    assert result is not None
    found = json.loads(result.bytes)
    assert (found["files"], found["bytes"]) == (5, 50)
    assert len(found["digest"]) == 64
