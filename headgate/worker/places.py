"""Where the handlers of an application run in a worker, and what they are given there."""

import os

from headgate.client.application import Headgate
from headgate.worker.batches import Batches
from headgate.worker.config import WorkerConfig
from headgate.worker.guard import ProcessGuard
from headgate.worker.processes import HandlerProcesses
from headgate.worker.stuck import StuckWatch
from headgate.worker.threads import HandlerThreads


class HandlerPlaces:
    """The tasks of an application with the threads, processes and batches that run them."""

    def __init__(self, app: Headgate, config: WorkerConfig) -> None:
        self.tasks = app.tasks
        self.provided = app.provided
        self.middleware = app.middleware
        self.telemetry = app.telemetry
        self.threads = HandlerThreads(config.threads or config.concurrency)
        self.guard = ProcessGuard()
        self.processes = HandlerProcesses(config.processes or os.cpu_count() or 1, self.guard)
        self.batches = Batches()
        self.stuck = StuckWatch(config.stuck_after_ms)

    async def close(self) -> None:
        """Ends what waits for work; what still works ends after it."""
        self.threads.close()
        await self.processes.close()
        self.guard.close()
