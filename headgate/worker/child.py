"""A process beside a worker that runs handlers: `python -m headgate.worker.child`, by a worker.

Handlers run on the main thread, one after another. A second thread talks to the worker, and ends
the process when that is gone; whatever the handler is doing then, nobody waits for it any more.
"""

import asyncio
import contextvars
import importlib
import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, BinaryIO, Final, cast

from headgate.client.errors import RegistrationError
from headgate.client.task import Task
from headgate.model.artifacts import Steps
from headgate.model.errors import BackendError, InvalidRequest, LeaseRejected, StoreUnavailable
from headgate.model.job import Acknowledgement, Lease, Settlement
from headgate.model.lifecycle import Outcome
from headgate.store.store import Store
from headgate.worker import child_protocol as protocol
from headgate.worker.context import JobContext
from headgate.worker.failures import failure_text
from headgate.worker.hold import Hold
from headgate.worker.record import AttemptRecord
from headgate.worker.running import running
from headgate.worker.verdicts import Verdict, of_raise, of_return

_REFUSALS: Final[dict[str, Callable[[str], Exception]]] = {
    "LeaseRejected": LeaseRejected,
    "StoreUnavailable": StoreUnavailable,
    "InvalidRequest": InvalidRequest,
}


class Pipe:
    """The connection to the worker."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading = reading
        self._writing = writing
        self._writes = threading.Lock()
        self.calls: SimpleQueue[protocol.Call] = SimpleQueue()
        self._replies: SimpleQueue[protocol.Replied] = SimpleQueue()
        self._asks = threading.Lock()

    def read_forever(self) -> None:
        """Takes in what the worker says; when it is gone, this process is too."""
        while True:
            message = self._read()
            if message is None:
                os._exit(0)
            elif isinstance(message, protocol.Call):
                self.calls.put(message)
            else:
                self._replies.put(message)

    def say(self, message: protocol.FromChild) -> None:
        with self._writes:
            self._writing.write(protocol.framed(message))
            self._writing.flush()

    def ask(self, question: protocol.Question) -> Any:
        """Has the worker do it; what came of it. Raises what the worker's store has raised."""
        with self._asks:
            self.say(protocol.Asked(question))
            reply = self._replies.get()
        if reply.refused is not None:
            raise _REFUSALS.get(reply.refused, BackendError)(reply.text)
        return reply.value

    def _read(self) -> protocol.FromWorker | None:
        head = self._reading.read(protocol.LENGTH.size)
        if len(head) < protocol.LENGTH.size:
            return None
        data = self._reading.read(*protocol.LENGTH.unpack(head))
        return protocol.decode_from_worker(data)


class RemoteStore:
    """What an attempt needs of a store, done by the worker on its own connections."""

    def __init__(self, pipe: Pipe, schema: str) -> None:
        self._pipe = pipe
        self.artifacts = self
        self.leases = self
        self.effects = SimpleNamespace(schema=schema, happened=self.happened)

    async def write_checkpoint(self, lease: Lease, steps: Steps) -> None:
        await self._ask(protocol.Checkpointed(lease, steps))

    async def write_progress(
        self, lease: Lease, current: int, total: int, message: str | None
    ) -> None:
        await self._ask(protocol.Progressed(lease, current, total, message))

    async def write_output(self, lease: Lease, schema_version: int, data: bytes) -> None:
        await self._ask(protocol.PutOut(lease, schema_version, data))

    async def renew(self, leases: list[Lease], lease_ms: int) -> list[str]:
        lost: list[str] = await self._ask(protocol.Renewed(leases[0], lease_ms))
        return lost

    async def acknowledge(self, reports: list[Acknowledgement]) -> list[Settlement]:
        state = await self._ask(protocol.Acknowledged(reports[0]))
        return [Settlement(reports[0].lease.job_id, state)]

    async def happened(self, key: str) -> bool:
        return bool(await self._ask(protocol.Happened(key)))

    async def _ask(self, question: protocol.Question) -> Any:
        return await asyncio.to_thread(self._pipe.ask, question)


class _Run:
    """One call: a handler on the main thread, its context on the loop of another."""

    def __init__(self, call: protocol.Call, pipe: Pipe, loop: asyncio.AbstractEventLoop) -> None:
        task = getattr(importlib.import_module(call.module), call.name, None)
        if not isinstance(task, Task):
            raise RegistrationError(f"{call.module}.{call.name} is no task")
        self._task = task
        self._claim = call.claim
        # The store of a worker has more; nothing that an attempt does needs it.
        store = cast("Store", RemoteStore(pipe, call.schema))
        self._record = AttemptRecord(
            call.claim,
            call.worker_id,
            Hold(store, call.claim.lease, lambda state: pipe.say(protocol.Left(state))),
            loop,
            task,
            child_failed=lambda: None,
            lengthen=lambda by_ms: pipe.say(protocol.Lengthened(by_ms)),
        )
        self.context = JobContext(self._record)

    def answer(self) -> protocol.Answer:
        running.set(self)
        record, task = self._record, self._task
        try:
            payload = task.payload_of(self._claim)
            returned = task.invoke(self.context, payload)
            self.context.blocking.wait(record.prove())
            verdict = of_return(returned, record.result)
        except BaseException as raised:
            verdict = of_raise(raised, task, self._claim.job_id, lambda: self.context)
        return protocol.Answer(verdict, record.log.lines, record.actual_weight)


def _answer(call: protocol.Call, pipe: Pipe, loop: asyncio.AbstractEventLoop) -> protocol.Answer:
    try:
        return _Run(call, pipe, loop).answer()
    except Exception as raised:
        # The module cannot be imported here, or has no such task.
        error = failure_text(raised)
        return protocol.Answer(Verdict(outcome=Outcome.RETRY, error=error), (), None)


def main() -> None:
    """Serves one worker until it is gone."""
    # What a handler prints must not get between the messages.
    pipe = Pipe(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    # The worker says when to end. A signal to the whole group is meant for it alone.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    threading.Thread(target=pipe.read_forever, daemon=True).start()
    while True:
        call = pipe.calls.get()
        pipe.say(contextvars.copy_context().run(_answer, call, pipe, loop))


if __name__ == "__main__":
    main()
