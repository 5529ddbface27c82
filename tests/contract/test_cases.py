"""Runs `cases.yaml`. A case waits as long as a route or an option it needs does not exist."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

import asyncpg
import pytest

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.api.table import OPERATIONS
from headgate.client.circuit_breaker import CircuitBreaker
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.contract.cases import Case, Routes, complaint, filled, read_cases
from tests.contract.client import Client, encode

CASES = read_cases()
OPTIONS = {"database", "enqueue_circuit_breaker", *ApiConfig.__struct_fields__}
UNREACHABLE = "postgresql://nobody@127.0.0.1:1/nothing"


def pending(case: Case) -> list[str]:
    routes = sorted(Routes(OPERATIONS).missing(case))
    options = sorted(f"option {name}" for name in case.config if name not in OPTIONS)
    return routes + options


def parameter(case: Case) -> Any:
    waits_for = pending(case)
    skipped = pytest.mark.skip(reason=f"pending: {', '.join(waits_for)}")
    return pytest.param(case, id=case.id, marks=[skipped] if waits_for else [])


def configured(config: dict[str, Any]) -> ApiConfig:
    """The configuration that a group of cases describes."""
    options = {name: value for name, value in config.items() if name != "database"}
    if limits := options.pop("enqueue_circuit_breaker", None):
        options["circuit_breaker"] = CircuitBreaker(**limits)
    if rule := options.pop("authorizer", None):
        allowed = rule.removeprefix("allow only kind ")
        options["authorizer"] = lambda job, context: job.kind == allowed
    return ApiConfig(**options)


@pytest.fixture
async def client(case: Case, headgate_database: str) -> AsyncIterator[Client]:
    away = case.config.get("database") == "unreachable" or "circuit" in case.group
    dsn = UNREACHABLE if away else headgate_database
    async with Store(StoreSettings(dsn=dsn)) as store:
        yield Client(create_app(store, configured(case.config)), prefix="")


@pytest.mark.parametrize("case", [parameter(case) for case in CASES])
async def test_case(case: Case, client: Client, headgate_database: str) -> None:
    token = "r" + secrets.token_hex(4)
    saved: dict[str, Any] = {}
    for step in case.steps:
        await take(client, step, saved, token, headgate_database)


async def take(
    client: Client, step: Mapping[str, Any], saved: dict[str, Any], token: str, dsn: str
) -> None:
    if "sql" in step:
        connection = await asyncpg.connect(dsn)
        await connection.execute(filled(step["sql"], saved, token))
        await connection.close()
    elif "sleep_ms" in step:
        await asyncio.sleep(step["sleep_ms"] / 1000)
    elif "sse" in step:
        await watch(client, step["sse"], saved, token, dsn)
    else:
        await run(client, step, saved, token)


async def watch(
    client: Client, wanted: Mapping[str, Any], saved: dict[str, Any], token: str, dsn: str
) -> None:
    """Opens a stream, takes the steps meanwhile, and waits for what must come."""
    async with client.stream(wanted["path"]) as stream:
        wrong = complaint(wanted["open"], stream.answer())
        assert wrong is None, wrong
        for step in wanted["during"]:
            await take(client, step, saved, token, dsn)
        async with asyncio.timeout(wanted["within_ms"] / 1000):
            await stream.until(lambda text: arrived(text, filled(wanted, saved, token)))


def arrived(text: str, wanted: Mapping[str, Any]) -> bool:
    if "expect_raw" in wanted:
        return wanted["expect_raw"] in text
    event = wanted["expect_event"]
    return any(
        f"event: {event['event']}\n" in frame
        and all(part in frame for part in event["data_contains"])
        for frame in text.split("\n\n")
    )


async def run(client: Client, step: Mapping[str, Any], saved: dict[str, Any], token: str) -> None:
    request = filled(step["request"], saved, token)
    headers = list(request.get("headers", {}).items())
    body = b""
    media_type = request.get("ctype", "application/json" if "json" in request else "")
    if "json" in request:
        body = encode(request["json"])
    elif "raw_fill" in request:
        body = b"x" * request["raw_fill"]
    elif "raw" in request:
        raw = request["raw"]
        body = bytes.fromhex(raw["hex"]) if isinstance(raw, dict) else raw.encode()
    if media_type:
        headers.append(("content-type", media_type))
    key = request.get("key", "")
    if key == "" and "key" in request:
        headers.append(("idempotency-key", ""))
        key = None
    answer = await client.request(
        request["method"], request["path"], headers=headers, body=body, key=key
    )
    wrong = complaint(filled(step["expect"], saved, token), answer)
    assert wrong is None, f"{request['method']} {request['path']}: {wrong}"
    for name, path in step.get("save", {}).items():
        value = answer.json()
        for part in path.split("."):
            value = value[part]
        saved[name] = value


def test_a_case_runs_as_soon_as_its_routes_exist() -> None:
    running = {case.group for case in CASES if not pending(case)}
    assert {"health-meta", "store-down", "idempotency-header", "enqueue", "jobs-list"} <= running
    assert len({case.id for case in CASES}) == len(CASES)
