"""Runs the command of an isolated task: the job on its standard input, the ending on its output.

What the program is told and says is a small protocol of its own, so that it can be written in any
language; everything else it prints is kept as the log of the attempt.
"""

import asyncio
import base64
from contextlib import suppress
from typing import Final

import msgspec

from headgate.client.commands import Command
from headgate.model.errors import HeadgateError
from headgate.model.job import Claim
from headgate.model.lifecycle import Outcome
from headgate.model.texts import clean
from headgate.worker.context import JobContext
from headgate.worker.guard import ProcessGuard
from headgate.worker.outcomes import RATE_LIMITED_DELAY_MS
from headgate.worker.verdicts import Verdict

MAX_STREAM_BYTES: Final = 65_536
MARK: Final = b"HEADGATE/1 "
VERSION: Final = 1
_CHUNK: Final = 16_384


class CommandFailed(HeadgateError):
    """The program ended badly, printed too much, or did not say how the job ended."""


class Ending(msgspec.Struct):
    """What the program says on its last marked line."""

    version: int
    outcome: Outcome
    error: str | None = None
    delay_ms: int | None = None


_decode: Final = msgspec.json.Decoder(Ending).decode


async def run_command(
    command: Command, claim: Claim, context: JobContext, guard: ProcessGuard
) -> Verdict:
    """Runs the program and waits for it; how it says that the job ended.

    Cancelled, it kills the program and all that it has started in its session; `guard` does so when
    the worker is killed. Raises `CommandFailed`, and `OSError` when there is no such program.
    """
    process = await asyncio.create_subprocess_exec(
        *command.arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=command.environment,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        guard.watch(process.pid)
        said, complained, _ = await asyncio.gather(
            _read(process.stdout), _read(process.stderr), _tell(process.stdin, document(claim))
        )
        status = await process.wait()
    finally:
        # Also what it left behind: nothing of an attempt outlives it.
        guard.end(process.pid)
        await process.wait()
    return _judge(status, said, complained, context)


def document(claim: Claim) -> bytes:
    """The job as the program reads it: one JSON document."""
    return msgspec.json.encode(
        {
            "version": VERSION,
            "job_id": claim.job_id,
            "kind": claim.kind,
            "schema_version": claim.schema_version,
            "payload_base64": base64.b64encode(claim.payload).decode(),
            "queue": claim.queue,
            "partition_key": claim.partition_key,
            "rate_class": claim.rate_class,
            "weight": claim.weight,
            "attempt": claim.attempt,
            "crash_attempt": claim.crash_attempt,
            "max_attempts": claim.max_attempts,
            "fence": claim.fence,
            "deadline_ms": claim.deadline_ms,
        }
    )


async def _tell(stream: asyncio.StreamWriter, data: bytes) -> None:
    # A program need not read what it does not want to know.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data)
        await stream.drain()
        stream.close()
        await stream.wait_closed()


async def _read(stream: asyncio.StreamReader) -> tuple[bytes, bool]:
    """What fits, and whether there was more; the rest is read too, so that nobody is stuck."""
    kept = bytearray()
    size = 0
    while chunk := await stream.read(_CHUNK):
        size += len(chunk)
        kept += chunk[: MAX_STREAM_BYTES - len(kept)]
    return bytes(kept), size > MAX_STREAM_BYTES


def _judge(
    status: int, said: tuple[bytes, bool], complained: tuple[bytes, bool], context: JobContext
) -> Verdict:
    output, too_much = said
    lines = output.splitlines()
    for line in lines:
        if line and not line.startswith(MARK):
            context.log(line.decode(errors="replace"))
    if status != 0:
        how = f"signal {-status}" if status < 0 else f"status {status}"
        text = complained[0].decode(errors="replace").strip()
        raise CommandFailed(f"the command ended with {how}: {text}")
    if too_much or complained[1]:
        raise CommandFailed(f"the command printed more than {MAX_STREAM_BYTES} bytes")
    marked = [line for line in lines if line.startswith(MARK)]
    if not marked:
        raise CommandFailed("the command did not say how the job ended")
    try:
        ending = _decode(marked[-1].removeprefix(MARK))
    except msgspec.DecodeError as error:
        raise CommandFailed(f"the command's last line is no ending: {error}") from error
    if ending.version != VERSION:
        raise CommandFailed(f"the command speaks version {ending.version}, not {VERSION}")
    delay_ms = ending.delay_ms
    if ending.outcome is Outcome.RATE_LIMITED and delay_ms is None:
        delay_ms = RATE_LIMITED_DELAY_MS
    if (delay_ms is not None and delay_ms < 1) or (
        ending.outcome is Outcome.SNOOZE and not delay_ms
    ):
        raise CommandFailed(f"{ending.outcome.value} needs a delay_ms of at least 1")
    error_text = None if ending.error is None else clean(ending.error)
    if ending.outcome is Outcome.RETRY and error_text is None:
        error_text = "retry requested"
    return Verdict(outcome=ending.outcome, error=error_text, delay_ms=delay_ms)
