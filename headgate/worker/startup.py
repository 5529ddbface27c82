"""What a worker makes sure of before it takes jobs, and what it looks at once it does."""

import logging
from typing import Final

from headgate.client.application import Headgate
from headgate.duties.outage import Backoff, OutageLog
from headgate.model.errors import StoreError, StoreRefused, StoreUnavailable
from headgate.store.store import Store
from headgate.worker.config import WorkerConfig
from headgate.worker.shutdown import Shutdown

_FLOOR_MS: Final = 100
_CEILING_MS: Final = 5_000

logger = logging.getLogger("headgate.worker")


class Startup:
    """The beginning of one worker."""

    def __init__(
        self,
        app: Headgate,
        store: Store,
        config: WorkerConfig,
        *,
        shutdown: Shutdown,
        outage: OutageLog,
    ) -> None:
        self._app = app
        self._store = store
        self._config = config
        self._shutdown = shutdown
        self._outage = outage

    async def ready(self) -> bool:
        """Waits for the database, looks at its schema and makes the schedules known; false when
        told to stop meanwhile. Raises `StoreRefused`, `SchemaMissing` or `SchemaIncompatible`.
        """
        backoff = Backoff(_FLOOR_MS, _CEILING_MS)
        while not self._shutdown.draining:
            try:
                await self._store.check_schema()
                await self._declare_schedules()
            except StoreRefused:
                raise
            except StoreUnavailable as error:
                self._outage.failed("start", error)
                await self._shutdown.requested(backoff.next_ms())
            else:
                self._outage.succeeded()
                return True
        return False

    async def warn_of_unknown_kinds(self) -> None:
        """Says what waits here that this worker cannot run; it is a look, and may fail."""
        try:
            waiting = await self._store.workers.waiting_kinds(self._config.queues)
        except StoreError as error:
            logger.info("the kinds that wait are not known: %s", error)
            return
        for kind in waiting:
            if kind not in self._app.tasks:
                logger.warning("jobs of kind %s wait, and this worker has no handler for it", kind)

    async def _declare_schedules(self) -> None:
        if self._config.sync_schedules:
            self._app.bind(self._store)
            pruned = await self._app.sync_schedules(prune=self._config.prune_schedules)
            for schedule_id in pruned:
                logger.warning("schedule %s is not declared any more: removed", schedule_id)
