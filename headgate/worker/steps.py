"""Steps: parts of a handler that are done once, however many attempts the job takes.

Where an attempt stands is written down under its lease before a step begins and after it ends. A
later attempt calls the same steps in the same order; those that were done before are passed over.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from headgate.model.artifacts import Steps
from headgate.model.errors import InvalidRequest
from headgate.model.identity import fingerprint
from headgate.model.job import Claim
from headgate.store.artifacts import claimed_steps
from headgate.worker.hold import Hold
from headgate.worker.outcomes import LeaseLost, StaleCheckpoint

Migrate = Callable[[int, list[str]], list[str] | None]
"""The completed steps of an older version as they are called today; None when nobody knows."""

_encode: Final = msgspec.json.Encoder().encode


class StepTrail:
    """The steps of one attempt."""

    __slots__ = ("_done", "_failed", "_hold", "_inside", "_seen", "_steps", "_unproven", "_version")

    def __init__(self, claim: Claim, hold: Hold, version: int, migrate: Migrate) -> None:
        self._hold = hold
        self._version = version
        steps = claimed_steps(claim)
        if steps.schema_version not in (0, version):
            migrated = migrate(steps.schema_version, list(steps.completed_steps))
            if migrated is not None:
                steps = replace(steps, completed_steps=migrated)
        self._steps = steps
        self._done = tuple(steps.completed_steps)
        self._seen: list[str] = []
        self._inside: str | None = None
        self._failed: str | None = None
        self._unproven: str | None = None

    def cursor(self, name: str, type: Any) -> Any:
        """Where the step stopped in an attempt before; None at its beginning."""
        if self._steps.cursor_step != name or self._steps.cursor is None:
            return None
        try:
            return msgspec.json.decode(self._steps.cursor, type=type)
        except msgspec.DecodeError as error:
            raise StaleCheckpoint(f"the cursor of step `{name}` is no cursor: {error}") from error

    async def enter(self, name: str) -> bool:
        """Begins the step; false when an attempt before has done it.

        Raises `StaleCheckpoint` when that attempt did other steps, `InvalidRequest` for a step
        inside of another, after one that failed, or a second time, and what the lease does.
        """
        self._hold.check()
        if self._hold.stopped:
            raise LeaseLost(self._hold.lease.job_id)
        await self.prove()
        if self._inside is not None:
            raise InvalidRequest(f"step `{name}` begins inside of step `{self._inside}`")
        if self._failed is not None:
            raise InvalidRequest(f"step `{name}` begins after step `{self._failed}` has failed")
        if name in self._seen:
            raise InvalidRequest(f"step `{name}` begins a second time in one attempt")
        place = len(self._seen)
        if place < len(self._done):
            if self._done[place] != name:
                raise StaleCheckpoint(
                    f"step {place + 1} was `{self._done[place]}` and is now `{name}`"
                )
            self._seen.append(name)
            return False
        cursor = self._steps.cursor if self._steps.cursor_step == name else None
        await self._write(self._at(self._seen, in_progress=name, cursor=cursor))
        self._seen.append(name)
        self._inside = name
        return True

    async def move(self, cursor: Any) -> None:
        """Keeps where the step stands. Raises `InvalidRequest` outside of a step and for what has
        no JSON form, and what the lease does.
        """
        if self._inside is None:
            raise InvalidRequest("a cursor belongs to a step: call `cursor_step`")
        try:
            encoded = _encode(cursor)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"cursor is not encodable: {error}") from error
        await self._write(self._at(self._seen[:-1], in_progress=self._inside, cursor=encoded))

    async def leave(self) -> None:
        """The step is done."""
        await self._write(self.done())
        self.left()

    def done(self) -> Steps:
        """What is to be written down when the step that runs is done."""
        return self._at(self._seen)

    def left(self, *, unproven: str | None = None) -> None:
        """That was written down, or will be when the transaction is committed that takes the key
        `unproven`.
        """
        self._steps = self.done()
        self._inside = None
        self._unproven = unproven

    async def prove(self) -> None:
        """Raises `InvalidRequest` when a step was done in a transaction that is not committed: what
        is written down next would say that it was. And what the store raises.
        """
        if self._unproven is None:
            return
        if not await self._hold.store.effects.happened(self._unproven):
            raise InvalidRequest(f"the transaction of step `{self._seen[-1]}` is not committed")
        self._unproven = None

    def fail(self) -> None:
        """The step has failed; an attempt to come begins it again."""
        self._failed, self._inside = self._inside, None

    def _at(
        self, completed: list[str], *, in_progress: str | None = None, cursor: bytes | None = None
    ) -> Steps:
        return Steps(
            completed_steps=list(completed),
            in_progress_step=in_progress,
            cursor_step=in_progress if cursor is not None else None,
            cursor=cursor,
            schema_version=self._version,
            step_set_hash=fingerprint("steps", "\0".join(completed).encode()),
        )

    async def _write(self, steps: Steps) -> None:
        await self._hold.write(
            lambda: self._hold.store.artifacts.write_checkpoint(self._hold.lease, steps)
        )
        self._steps = steps


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns, awaited where that is due."""
    returned = function(*arguments)
    if inspect.isawaitable(returned):
        awaited: Awaitable[Any] = returned
        return await awaited
    return returned
