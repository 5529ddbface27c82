"""What a worker says of itself: to the registry with every heartbeat, and to those who listen."""

import asyncio
import os
import secrets
import socket
from contextlib import suppress

from headgate.model.job import WorkerBeat
from headgate.worker.config import WorkerConfig
from headgate.worker.observation import Observation
from headgate.worker.polling import PollWindow
from headgate.worker.slots import Slots


class Presence:
    """The row of one worker in the registry, as it should be now."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        worker_id: str,
        slots: Slots,
        window: PollWindow,
        observation: Observation,
    ) -> None:
        self._config = config
        self._worker_id = worker_id
        self._slots = slots
        self._window = window
        self._observation = observation
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self.status = "running"
        self.resigned = asyncio.Event()
        """Set once the duties are left to others."""

    def begin(self) -> None:
        """From now on those who listen hear of every beat, on the event loop that calls this."""
        self._event_loop = asyncio.get_running_loop()

    def beat(self) -> WorkerBeat:
        """What the heartbeat says, in its thread; those who listen hear of it in ours."""
        config = self._config
        beat = WorkerBeat(
            worker_id=self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=config.queues,
            concurrency=config.concurrency,
            inflight=len(self._slots.held),
            polls=self._window.polls,
            empty_polls=self._window.empty_polls,
            status=self.status,
            duties_active=config.duties and not self.resigned.is_set(),
        )
        if self._event_loop is not None:
            with suppress(RuntimeError):
                self._event_loop.call_soon_threadsafe(self._observation.beat, beat)
        return beat


def new_worker_id() -> str:
    """A name for a worker that was given none; nobody else has it."""
    host = socket.gethostname().encode("ascii", "replace").decode()[:200]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
