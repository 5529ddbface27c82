"""What every duty is: a name, an interval, and one bounded piece of work."""

from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.duties.archive import ArchiveMonths
from headgate.duties.lanes import LaneRepair
from headgate.duties.ledger import LedgerFolding
from headgate.duties.operations import OperationsRunner
from headgate.duties.promoter import Promoter
from headgate.duties.quarantine import QuarantineSweep
from headgate.duties.reclaimer import Reclaimer
from headgate.duties.retention import Evictions, Pruning
from headgate.duties.scheduler import Scheduler
from headgate.model.periodic_hook import PeriodicHook
from headgate.model.retention import RetentionPeriods
from headgate.store.store import Store
from headgate.telemetry.events import Event
from headgate.telemetry.telemetry import ignore


class Loop(Protocol):
    """Work that the installation needs done now and then, by one process at a time.

    `name` is its row in the database, through which one process holds it. `batch` is how many rows
    one run handles at most; fewer than that means that nothing is left for now.
    """

    name: str
    interval_ms: int
    batch: int

    async def run_once(self, store: Store) -> int:
        """Does one batch and says how many rows it handled. Raises `StoreError`.

        Correct also when another process does the same at this moment: holding the duty saves work,
        it protects nothing.
        """


def all_loops(
    retention: RetentionPeriods | None = None,
    periodic_hooks: Sequence[PeriodicHook] = (),
    *,
    on_event: Callable[[Event], None] = ignore,
) -> Sequence[Loop]:
    """Every duty of a worker. `retention` says how long things are kept that have ended, and the
    hooks are told of schedules that are taken up. `on_event` hears of quarantines and evictions.
    """
    return (
        Reclaimer(on_event),
        Promoter(),
        Scheduler(periodic_hooks),
        OperationsRunner(),
        QuarantineSweep(),
        Evictions(retention, on_event),
        Pruning(retention),
        LedgerFolding(),
        ArchiveMonths(),
        LaneRepair(),
    )
