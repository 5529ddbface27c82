"""What must hold for every route: walks over the table, so that no new one is forgotten."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import pytest
from sqlalchemy import select

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.api.operations import MUTATING, Operation
from headgate.api.table import OPERATIONS
from headgate.store.store import Store
from headgate.tables import metadata
from tests.contract.client import Answer, Client
from tests.contract.samples import SCHEMAS, by_family, call, harmless_body, quoted, target

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
PATHS: Final = sorted({each.path for each in OPERATIONS})
MUTATIONS: Final = [each for each in OPERATIONS if each.mutates]

DRIVER_TEXT: Final = re.compile(
    r"asyncpg|psycopg|sqlalchemy|traceback|sqlstate|syntax error|invalid byte sequence"
    r"|out of range|relation \"|column \"|constraint|connect call|errno|encode",
    re.IGNORECASE,
)

TEXTS: Final = (
    "", " ", "\t\n", "\0", "a\0b", "%", "%00", "..", "../..", "a/b?c#d%20 é", "'; DROP TABLE x; --",
    "\u202e\U0001f600", "\ufffe\uffff", "x" * 256, "é" * 200, "x" * 70_000, "1", "true", "null",
)  # fmt: skip
INTEGERS: Final = (
    -1, 0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64,
    -(2**31) - 1, -(2**63), -(2**63) - 1, 10**40, 253402300799999, 253402300800000,
)  # fmt: skip
OTHERS: Final[tuple[Any, ...]] = (None, True, 1.0, 1.5, 1e300, [], {}, [None], [[]], {"": ""})

PARAMETER: Final = re.compile(r"\{\w+\}")


@pytest.fixture
async def client(store: Store) -> Client:
    return Client(create_app(store), prefix="")


@pytest.fixture
async def read_only(store: Store) -> Client:
    return Client(create_app(store, ApiConfig(read_only=True)), prefix="")


def assert_clean(answer: Answer, what: object) -> None:
    assert answer.status < 500, (what, answer)
    if answer.status >= 400 and answer.body:
        assert answer.headers["content-type"] == "application/json", what
        assert not DRIVER_TEXT.search(answer.json()["error"]), (what, answer)


async def test_every_method_on_every_path(client: Client) -> None:
    for path in PATHS:
        await assert_methods(client, path)


async def assert_methods(client: Client, path: str) -> None:
    routed = {each.method for each in OPERATIONS if each.path == path}
    allowed = routed | ({"HEAD"} if "GET" in routed else set())
    concrete = PARAMETER.sub("x", path)
    for method in METHODS:
        answer = await client.request(method, concrete)
        if method in allowed:
            assert answer.status != 405, (method, path)
            continue
        assert (answer.status, answer.body) == (405, b""), (method, path)
        assert set(answer.headers["allow"].split(", ")) == allowed
        assert "content-type" not in answer.headers


async def test_no_key_no_mutation_whatever_the_path(client: Client) -> None:
    for method, path in product(sorted(MUTATING), PATHS):
        await assert_asks_for_a_key(client, method, PARAMETER.sub("x", path))


async def assert_asks_for_a_key(client: Client, method: str, path: str) -> None:
    for key, text in (
        (None, "Idempotency-Key header is required on every mutating request"),
        ("k" * 256, "Idempotency-Key must be 1-255 visible ASCII characters"),
        ("é", "Idempotency-Key must be 1-255 visible ASCII characters"),
    ):
        answer = await client.request(method, path, key=key, body=b"no json")
        assert (answer.status, answer.json()) == (400, {"error": text}), (method, path)


async def test_read_only_refuses_everything_but_reads(read_only: Client, store: Store) -> None:
    before = await contents(store)
    for path in PATHS:
        concrete = PARAMETER.sub("x", path)
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            for key in ("", None):
                answer = await read_only.request(method, concrete, key=key)
                assert (answer.status, answer.json()) == (403, {"error": "read-only mode"})
        assert (await read_only.request("OPTIONS", concrete)).status == 405
    for operation in OPERATIONS:
        if operation.method == "GET":
            for method in ("GET", "HEAD"):
                answer = await read_only.request(method, target(operation))
                assert answer.status in (200, 404)
        else:
            assert (await call(read_only, operation, target(operation))).status == 403
    unknown = await read_only.request("POST", "/api/v1/nosuch")
    assert (unknown.status, unknown.body) == (404, b"")
    assert await contents(store) == before


async def contents(store: Store) -> dict[str, list[str]]:
    """Every row of every table, as text."""
    return {
        table.name: sorted(map(repr, await store.database.fetch(select(table))))
        for table in metadata.sorted_tables
    }


@by_family
async def test_head_answers_like_get_without_a_body(
    client: Client, operations: list[Operation]
) -> None:
    for operation in operations:
        await compare_head_and_get(client, operation)


async def compare_head_and_get(client: Client, operation: Operation) -> None:
    if operation.method != "GET":
        return
    get, head = [await client.request(each, target(operation)) for each in ("GET", "HEAD")]
    assert head.status == get.status
    assert head.body == b""
    different = {"x-request-id", "date"}
    assert {n: v for n, v in head.headers.items() if n not in different} == {
        n: v for n, v in get.headers.items() if n not in different
    }


@by_family
async def test_hostile_path_parameters(client: Client, operations: list[Operation]) -> None:
    for operation in operations:
        await send_hostile_path_parameters(client, operation)


async def send_hostile_path_parameters(client: Client, operation: Operation) -> None:
    for name in operation.path_parameters:
        for text in TEXTS:
            if text:
                answer = await call(client, operation, target(operation, **{name: text}))
                assert_clean(answer, text)
                if operation.mutates and "\0" in text:
                    assert answer.status == 400
                    assert answer.json() == {"error": f"{name} must not contain NUL"}
        path = operation.path.replace("{" + name + "}", "%C3%28")
        answer = await call(client, operation, PARAMETER.sub("x", path))
        assert (answer.status, answer.json()) == (400, {"error": "invalid path parameter"})


@by_family
async def test_hostile_query_parameters(client: Client, operations: list[Operation]) -> None:
    for operation in operations:
        await send_hostile_query_parameters(client, operation)


async def send_hostile_query_parameters(client: Client, operation: Operation) -> None:
    names = [] if operation.query is None else operation.query.names
    for name in (*names, "unknown", ""):
        for text in (*TEXTS, *map(str, INTEGERS)):
            joint = "&" if "?" in target(operation) else "?"
            path = f"{target(operation)}{joint}{quoted(name)}={quoted(text)}"
            assert_clean(await call(client, operation, path), (name, text))
        path = f"{target(operation)}{joint}{name}=%FF%00&{name}="
        assert_clean(await call(client, operation, path), name)


@by_family
async def test_hostile_bodies(client: Client, operations: list[Operation]) -> None:
    for operation in operations:
        await send_hostile_bodies(client, operation)


async def send_hostile_bodies(client: Client, operation: Operation) -> None:
    if operation.body_type is None:
        return
    for body in hostile_bodies(operation):
        assert_clean(await call(client, operation, target(operation), json=body), body)
    for raw in (b"", b"[]", b"null", b"{", b"\xff", b"[" * 10_000, b'{"a":' * 10_000):
        answer = await call(
            client,
            operation,
            target(operation),
            json=None,
            body=raw,
            headers=[("content-type", "application/json")],
        )
        assert answer.status in (400, 422)
    too_much = b" " * (operation.body.max_bytes + 1 if operation.body else 0)
    answer = await call(
        client,
        operation,
        target(operation),
        json=None,
        body=too_much,
        headers=[("content-type", "application/json")],
    )
    assert answer.status == 413


def hostile_bodies(operation: Operation) -> Iterator[dict[str, Any]]:
    assert operation.body_type is not None
    base = harmless_body(operation)
    for name in SCHEMAS[operation.body_type.__name__]["properties"]:
        for value in (*TEXTS, *INTEGERS, *OTHERS):
            yield {**base, name: value}
        for value in TEXTS[:-3]:
            yield {**base, name: [value]}
    for name in base:
        yield {each: value for each, value in base.items() if each != name}
