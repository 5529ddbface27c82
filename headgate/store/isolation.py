"""Sweeps that go on when a row of theirs cannot be written.

A sweep writes a thousand rows in one statement, and one row that a constraint or a trigger of
somebody's speaks against would keep all others from it, for ever. Such a row is found by halving,
told once, and passed over for an hour.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Executable

from headgate.store.database import Executor, Row
from headgate.store.failures import RowRefused

_PASSED_OVER_S: Final = 3_600

Key = TypeVar("Key", int, str)

logger = logging.getLogger("headgate.store")


class Isolation(Generic[Key]):
    """What one sweep passes over: rows by their id, or kinds of records by their name.

    `subject` says in the log which it is. Forgotten with the process, which costs one halving.
    """

    def __init__(
        self,
        sweep: str,
        *,
        subject: str = "the job in row",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sweep = sweep
        self._subject = subject
        self._clock = clock
        self._until: dict[Key, float] = {}

    @property
    def passed_over(self) -> list[Key]:
        """What is not to be tried now."""
        now = self._clock()
        self._until = {key: until for key, until in self._until.items() if until > now}
        return list(self._until)

    async def each(
        self, keys: Sequence[Key], work: Callable[[Sequence[Key]], Awaitable[list[Row]]]
    ) -> list[Row]:
        """What `work` returns for all of them, but for those that it cannot be done with.

        Raises what `work` raises, except `RowRefused`.
        """
        done: list[Row] = []
        waiting = [keys] if keys else []
        while waiting:
            part = waiting.pop()
            try:
                done += await work(part)
            except RowRefused as refusal:
                if len(part) == 1:
                    self._pass_over(part[0], refusal)
                else:
                    half = len(part) // 2
                    waiting += [part[half:], part[:half]]
        return done

    async def sweep(
        self,
        database: Executor,
        *,
        together: Executable,
        candidates: Executable,
        named: Executable,
        **parameters: Any,
    ) -> list[Row]:
        """The rows of `together`, a sweep in one statement; when a row is refused, those of `named`
        for the `candidates` (id), piece by piece.
        """
        parameters["passed_over"] = self.passed_over
        try:
            return await database.fetch(together, parameters)
        except RowRefused:
            rows = await database.fetch(candidates, parameters)

        async def some(keys: Sequence[Key]) -> list[Row]:
            return await database.fetch(named, {**parameters, "row_id_array": list(keys)})

        return await self.each([row["id"] for row in rows], some)

    def _pass_over(self, key: Key, refusal: RowRefused) -> None:
        self._until[key] = self._clock() + _PASSED_OVER_S
        logger.error(
            "%s: %s %s cannot be written and is passed over for an hour: %s",
            self._sweep,
            self._subject,
            key,
            refusal,
        )
