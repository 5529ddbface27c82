"""Sweeps that go on when a row of theirs cannot be written.

A sweep writes a thousand rows in one statement, and one row that a constraint or a trigger of
somebody's speaks against would keep all others from it, for ever. Such a row is found by halving,
told once, and passed over for an hour.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from sqlalchemy import Executable

from headgate.store.database import Executor, Row
from headgate.store.failures import RowRefused

_PASSED_OVER_S: Final = 3_600

logger = logging.getLogger("headgate.store")


class Isolation:
    """The rows that one sweep passes over. Forgotten with the process, which costs one halving."""

    def __init__(self, sweep: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sweep = sweep
        self._clock = clock
        self._until: dict[int, float] = {}

    @property
    def passed_over(self) -> list[int]:
        """The rows that are not to be tried now."""
        now = self._clock()
        self._until = {row_id: until for row_id, until in self._until.items() if until > now}
        return list(self._until)

    async def each(
        self, row_ids: Sequence[int], work: Callable[[Sequence[int]], Awaitable[list[Row]]]
    ) -> list[Row]:
        """What `work` returns for all the rows, but for those that it cannot be done with.

        Raises what `work` raises, except `RowRefused`.
        """
        done: list[Row] = []
        waiting = [row_ids] if row_ids else []
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

        async def some(row_ids: Sequence[int]) -> list[Row]:
            return await database.fetch(named, {**parameters, "row_id_array": list(row_ids)})

        return await self.each([row["id"] for row in rows], some)

    def _pass_over(self, row_id: int, refusal: RowRefused) -> None:
        self._until[row_id] = self._clock() + _PASSED_OVER_S
        logger.error(
            "%s: the job in row %d cannot be written and is passed over for an hour: %s",
            self._sweep,
            row_id,
            refusal,
        )
