"""Makes the jobs of schedules when their ticks are due."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from headgate.model.errors import StoreUnavailable
from headgate.model.periodic import DueSchedule, Tick, TickOutcome
from headgate.model.periodic_hook import PeriodicHook
from headgate.store.store import Store
from headgate.store.ticks import INVALID_SPEC

_PATIENCE_REASON: Final = "store_unavailable"
_FAULT_REASON: Final = "store_error"

logger = logging.getLogger("headgate.duties")


class Scheduler:
    """Takes up the due schedules, in the order in which they became due.

    A schedule that cannot be taken up stays due and is tried again in the next round; the others
    do not wait for it. More missed ticks than one sweep takes up are worked off at once.
    """

    name = "scheduler"
    interval_ms = 1_000
    batch = 50

    def __init__(self, hooks: Sequence[PeriodicHook] = ()) -> None:
        self._hooks = hooks
        # Where the next page goes on; what stays due at the front must not hide what is behind it.
        self._after: DueSchedule | None = None
        self._unfinished = False

    async def run_once(self, store: Store) -> int:
        due = await store.schedules.due(self.batch, after=self._after)
        for schedule in due:
            self._unfinished |= await self._take_up(store, schedule)
        if len(due) == self.batch:
            self._after = due[-1]
            return self.batch
        again, self._after, self._unfinished = self._unfinished, None, False
        return self.batch if again else len(due)

    async def _take_up(self, store: Store, due: DueSchedule) -> bool:
        """Whether more of its ticks are due."""
        self._tell([hook.on_begin for hook in self._hooks], due.id, due.next_run_ms)
        ticks: list[Tick] = []
        try:
            fired = await store.schedules.fire(due)
            ticks = fired.events
            _report(due, ticks)
            return fired.unfinished
        except StoreUnavailable as error:
            # When the store is away, this raises too, and ends the round.
            ticks = await store.schedules.fail(due, _PATIENCE_REASON)
            _report(due, ticks, detail=str(error))
        except Exception:
            logger.exception("schedule %s cannot be taken up", due.id)
            ticks = await store.schedules.fail(due, _FAULT_REASON)
        finally:
            self._tell([hook.on_end for hook in self._hooks], due.id, ticks)
        return False

    def _tell(self, calls: Iterable[Callable[..., None]], *arguments: Any) -> None:
        for call in calls:
            try:
                call(*arguments)
            except Exception:
                logger.exception("a hook of schedules failed")


def _report(due: DueSchedule, events: Sequence[Tick], *, detail: str = "") -> None:
    for event in events:
        if event.reason == INVALID_SPEC:
            logger.error("schedule %s has a spec that is not understood; put off", due.id)
        elif event.outcome is TickOutcome.FAILED:
            logger.warning(
                "schedule %s: tick %d failed: %s", due.id, event.tick_ms, detail or event.reason
            )
