"""Processes for handlers that keep a processor busy. They are started as they are needed."""

import asyncio
import os
import sys
from typing import Any, Final

from headgate.client.task import Task
from headgate.model.errors import StoreError
from headgate.model.job import Claim
from headgate.worker import child_protocol as protocol
from headgate.worker.guard import ProcessGuard
from headgate.worker.record import AttemptRecord
from headgate.worker.verdicts import UNREPORTED, Verdict

_STREAM_LIMIT: Final = 1_048_576


class HandlerProcesses:
    """At most `size` processes, each of which runs one job at a time and is used again."""

    def __init__(self, size: int, guard: ProcessGuard) -> None:
        """`guard` sees to it that they end with the worker."""
        self._guard = guard
        self._room = asyncio.Semaphore(size)
        self._idle: list[_Child] = []

    async def run(self, task: Task[Any], claim: Claim, record: AttemptRecord) -> Verdict:
        """Runs the handler and waits for it; how it ended.

        Cancelled, it kills the process. A process that dies by itself has crashed the attempt:
        nothing is reported, as if the worker had died.
        """
        async with self._room:
            child = self._idle.pop() if self._idle else await _Child.start(self._guard)
            try:
                verdict = await child.run(task, claim, record)
            except BaseException:
                await child.kill()
                raise
            if verdict is None:
                await child.kill()
                return UNREPORTED
            self._idle.append(child)
            return verdict

    async def close(self) -> None:
        """Ends the processes that wait for work."""
        while self._idle:
            await self._idle.pop().kill()


class _Child:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process, guard: ProcessGuard) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._guard = guard
        guard.watch(process.pid)
        self._writing = process.stdin
        self._reading = process.stdout

    @classmethod
    async def start(cls, guard: ProcessGuard) -> "_Child":
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headgate.worker.child",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_STREAM_LIMIT,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                },
            ),
            guard,
        )

    async def run(self, task: Task[Any], claim: Claim, record: AttemptRecord) -> Verdict | None:
        """How the handler ended; None when the process has died over it."""
        handler = task.handler
        schema = record.hold.store.effects.schema
        call = protocol.Call(
            handler.__module__, handler.__qualname__, claim, record.worker_id, schema
        )
        try:
            await self._say(call)
            while True:
                message = await self._hear()
                if isinstance(message, protocol.Answer):
                    record.take_over(message.logs, message.actual_weight)
                    return message.verdict
                if isinstance(message, protocol.Left):
                    record.hold.leave(message.state)
                elif isinstance(message, protocol.Lengthened):
                    record.lengthen(message.by_ms)
                else:
                    await self._say(await _reply(message.question, record))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def kill(self) -> None:
        self._guard.end(self._process.pid)
        await self._process.wait()

    async def _say(self, message: protocol.FromWorker) -> None:
        self._writing.write(protocol.framed(message))
        await self._writing.drain()

    async def _hear(self) -> protocol.FromChild:
        head = await self._reading.readexactly(protocol.LENGTH.size)
        return protocol.decode_from_child(
            await self._reading.readexactly(*protocol.LENGTH.unpack(head))
        )


async def _reply(question: protocol.Question, record: AttemptRecord) -> protocol.Replied:
    try:
        return protocol.Replied(await _do(question, record))
    except StoreError as error:
        # Both sides know this one by what it names.
        text = record.claim.job_id if type(error).__name__ == "LeaseRejected" else str(error)
        return protocol.Replied(refused=type(error).__name__, text=text)


async def _do(question: protocol.Question, record: AttemptRecord) -> Any:
    store = record.hold.store
    match question:
        case protocol.Checkpointed(lease=lease, steps=steps):
            await store.artifacts.write_checkpoint(lease, steps)
        case protocol.Progressed(lease=lease, current=current, total=total, message=message):
            await store.artifacts.write_progress(lease, current, total, message)
        case protocol.PutOut(lease=lease, schema_version=version, data=data):
            await store.artifacts.write_output(lease, version, data)
        case protocol.Renewed(lease=lease, lease_ms=lease_ms):
            return await store.leases.renew([lease], lease_ms)
        case protocol.Acknowledged(report=report):
            (settlement,) = await store.leases.acknowledge([report])
            return settlement.state
        case protocol.Happened(key=key):
            return await store.effects.happened(key)
    return None
