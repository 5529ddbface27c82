"""Connections of our own: what one learned about types serves the next."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from headgate.store import connection as module
from headgate.store.connection import Connection


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the driver asks the server about types, in a process that knows nothing yet."""
    asked: list[Any] = []
    ask = vars(asyncpg.Connection)["_introspect_types"]

    async def count(self: Any, types: Any, timeout: Any) -> Any:
        asked.append(types)
        return await ask(self, types, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", count)
    monkeypatch.setattr(module, "_learned", {})
    return asked


@pytest.fixture
async def connections(headgate_database: str) -> AsyncIterator[list[Connection]]:
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(2):
            each = await asyncpg.connect(headgate_database, connection_class=Connection)
            stack.push_async_callback(each.close)
            made.append(each)
        yield made


async def test_arrays_are_learned_once_in_a_process(
    connections: list[Connection], questions: list[Any]
) -> None:
    for each in connections:
        [[numbers, texts]] = await each.run(
            "SELECT $1::bigint[], $2::bytea[]", [[1, None, 2**40], [b"\0", b""]]
        )
        assert (numbers, texts) == ([1, None, 2**40], [b"\0", b""])
    assert len(questions) == 1


async def test_types_of_a_database_are_its_own(
    connections: list[Connection], questions: list[Any]
) -> None:
    for each in connections:
        [[states]] = await each.run("SELECT ARRAY['running']::headgate_state[]", [])
        assert states == ["running"]
    assert len(questions) == 2
