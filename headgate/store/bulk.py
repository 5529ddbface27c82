"""One batch of an operation: the next jobs of its streams, those of them that nobody holds, done.

A batch is a transaction that holds the row of the operation, in which it leaves its place. Rows
that somebody else holds are noted and come again at the end, so an operation neither waits for
them nor takes a short batch for its end.
"""

from collections.abc import Sequence
from typing import Any, Final, Self

import msgspec

from headgate.model.lifecycle import OperatorAction, State
from headgate.model.operation import (
    DELETE_QUEUE,
    JobSelector,
    conditions,
    reached_states,
    states_of_round,
)
from headgate.queries.bulk import is_searched, lock_free_jobs, still_selected, window
from headgate.queries.operations import extend_operation, keep_place, take_operation
from headgate.queries.operators import cancel_jobs, delete_jobs
from headgate.queries.queue_deletion import any_job
from headgate.queries.queue_settings import forget_queue
from headgate.store.database import Row, Session
from headgate.store.revival import make_available

WINDOW: Final = 5_000
"""How many entries of its streams a batch looks at when jobs must be looked at one by one."""

SKIPPED_KEPT: Final = 5_000
"""With so many jobs noted as held by others, an operation goes on with those."""

# A job that keeps moving between two states can escape a round; it cannot escape all of these.
_MAX_ROUNDS: Final = 10

_decode_selector: Final = msgspec.json.Decoder(JobSelector).decode


class Progress(msgspec.Struct):
    """What a batch did. `moved` is false when nothing can be done for now but wait."""

    moved: bool = False
    queues: set[str] = set()
    """The queues that have new work."""


class _Place(msgspec.Struct):
    """Where an operation stands. `state` is a position in `states`, behind the last at the end."""

    states: tuple[State, ...]
    state: int
    after_id: int
    until_id: int
    round: int
    affected_in_round: int
    skipped: list[int]

    @classmethod
    def of(cls, row: Row, reached: tuple[State, ...], *, whole_rounds: bool) -> Self:
        states = reached if whole_rounds else states_of_round(reached, row["round"])
        cursor: str | None = row["cursor_state"]
        return cls(
            states=states,
            state=0 if cursor is None else states.index(State(cursor)),
            after_id=row["cursor_id"],
            until_id=row["until_id"],
            round=row["round"],
            affected_in_round=row["affected_in_round"],
            skipped=row["skipped"],
        )

    @property
    def at_end(self) -> bool:
        return self.state == len(self.states)

    def next_state(self) -> None:
        self.state += 1
        self.after_id = 0

    def next_round(self) -> None:
        self.state = self.after_id = self.affected_in_round = 0
        self.round += 1

    def parameters(self) -> dict[str, Any]:
        last = self.states[-1] if self.states else None
        return {
            # The end is the last state behind its last job, where the next look finds it again.
            "new_cursor_state": last if self.at_end else self.states[self.state],
            "new_cursor_id": self.until_id if self.at_end else self.after_id,
            "new_round": self.round,
            "new_affected_in_round": self.affected_in_round,
            "new_skipped": self.skipped,
        }


async def do_batch(session: Session, operation_id: str, limit: int) -> Progress:
    """Does one batch of up to `limit` jobs, and of as many that were skipped before."""
    rows = await session.fetch(take_operation(), {"operation_id": operation_id})
    if not rows:
        return Progress()
    batch = _Batch(session, operation_id, rows[0])
    await batch.go_on(limit)
    await batch.settle_skipped(limit)
    finished = await batch.is_finished()
    await session.fetch(
        keep_place(),
        {
            "operation_id": operation_id,
            "new_status": "completed" if finished else "running",
            "more_affected": batch.affected,
            "more_clashes": batch.clashes,
            **batch.place.parameters(),
        },
    )
    batch.progress.moved |= finished
    return batch.progress


class _Batch:
    def __init__(self, session: Session, operation_id: str, row: Row) -> None:
        self._session = session
        self._operation_id = operation_id
        self._deletes_queue = row["action"] == DELETE_QUEUE
        self._action = (
            OperatorAction.DELETE if self._deletes_queue else OperatorAction(row["action"])
        )
        self._selector = _decode_selector(row["selector"])
        self._given = frozenset(conditions(self._selector))
        self._reached = reached_states(row["action"], self._selector.state)
        self.place = _Place.of(row, self._reached, whole_rounds=self._deletes_queue)
        self.affected = 0
        self.clashes = 0
        self.progress = Progress()

    async def go_on(self, limit: int) -> None:
        """Does the next jobs of the streams, unless too many are waiting for another turn."""
        if len(self.place.skipped) >= SKIPPED_KEPT or not self._reached:
            return
        chosen = await self._choose(limit)
        if chosen:
            done = await self._act(chosen)
            self.place.skipped += [row_id for row_id in chosen if row_id not in done]

    async def settle_skipped(self, limit: int) -> None:
        """Gives jobs that somebody held another turn, once the streams are at their end."""
        place = self.place
        if not place.skipped or not (place.at_end or len(place.skipped) >= SKIPPED_KEPT):
            return
        again, rest = place.skipped[:limit], place.skipped[limit:]
        done = await self._act(again)
        left = [row_id for row_id in again if row_id not in done]
        rows = await self._session.fetch(still_selected(self._reached), {"row_id_array": left})
        place.skipped = rest + [row["id"] for row in rows]
        self.progress.moved |= len(rows) < len(again)

    async def is_finished(self) -> bool:
        """Whether nothing is left to do; begins another round where there may be something."""
        place = self.place
        if self._reached and (not place.at_end or place.skipped):
            return False
        if self._deletes_queue:
            queue = {"queue_name": self._selector.queue}
            if await self._session.fetch(any_job(), queue):
                # What is left runs, or it moved or came while this round went on.
                self.progress.moved |= place.affected_in_round > 0
                place.next_round()
                await self._extend()
                return False
            await self._session.fetch(forget_queue(), {"wanted_queue": self._selector.queue})
            return True
        again = states_of_round(self._reached, place.round + 1)
        if not place.affected_in_round or not again or place.round + 1 == _MAX_ROUNDS:
            return True
        self.progress.moved = True
        place.next_round()
        place.states = again
        return False

    async def _extend(self) -> None:
        await self._session.fetch(extend_operation(), {"operation_id": self._operation_id})

    async def _choose(self, limit: int) -> list[int]:
        """Up to `limit` jobs that match, in the order of the streams; moves the place behind them.

        Looks at a window when jobs must be looked at, else at as many entries as can be done.
        """
        place = self.place
        searched = is_searched(self._given)
        budget = WINDOW if searched else limit
        parameters = {
            **{f"wanted_{name}": getattr(self._selector, name) for name in self._given},
            "operation_id": self._operation_id,
        }
        chosen: list[int] = []
        while not place.at_end and budget > 0 and len(chosen) < limit:
            rows = await self._session.fetch(
                window(self._given, place.states[place.state]),
                {**parameters, "after_id": place.after_id, "window_size": budget},
            )
            ended = len(rows) < budget
            for row in rows:
                if row["id"] > place.until_id:
                    ended = True
                    break
                if len(chosen) == limit:
                    ended = False
                    break
                place.after_id = row["id"]
                self.progress.moved = True
                budget -= 1
                if row["matches"]:
                    chosen.append(row["id"])
            if ended:
                place.next_state()
        return chosen

    async def _act(self, row_ids: Sequence[int]) -> set[int]:
        """Acts on those of the jobs that nobody holds; the ones that are settled by that."""
        rows = await self._session.fetch(lock_free_jobs(self._reached), {"row_id_array": row_ids})
        locked = [row["id"] for row in rows]
        if not locked:
            return set()
        if self._action is OperatorAction.RETRY:
            revival = await make_available(self._session, self._action, locked)
            self.progress.queues.update(revival.queues.values())
            self.clashes += len(revival.holders)
            affected = len(revival.queues)
        else:
            statement = cancel_jobs if self._action is OperatorAction.CANCEL else delete_jobs
            affected = len(await self._session.fetch(statement(), {"row_id_array": locked}))
        self.affected += affected
        self.place.affected_in_round += affected
        return set(locked)
