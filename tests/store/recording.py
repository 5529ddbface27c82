"""What a port asks of the database, statement by statement."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Executable

from headgate.store.database import Executor, Row, Session

Result = TypeVar("Result")


class Asked(NamedTuple):
    """One statement with its parameters."""

    statement: Executable
    parameters: dict[str, Any]


class Recorder:
    """Stands between a port and its database and writes down what goes through."""

    def __init__(self, executor: Executor) -> None:
        self.asked: list[Asked] = []
        self._executor = executor

    async def fetch(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> list[Row]:
        self.asked.append(Asked(statement, dict(parameters or {})))
        return await self._executor.fetch(statement, parameters)

    async def transact(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        async def recorded(session: Session) -> Result:
            inner = Recorder(session)
            inner.asked = self.asked
            return await work(inner)  # type: ignore[arg-type]  # it is used like a session

        return await self._executor.transact(recorded)
