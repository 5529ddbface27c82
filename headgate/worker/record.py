"""What one attempt has said and done so far, beside its handler."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.client.task import Task
from headgate.model.artifacts import MAX_OPAQUE_BYTES
from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement, Claim, Stored
from headgate.model.lifecycle import Outcome
from headgate.model.limits import MAX_INT32
from headgate.worker.attempt_log import AttemptLog
from headgate.worker.children import Children
from headgate.worker.effects import AttemptEffects
from headgate.worker.hold import Hold, Holding
from headgate.worker.steps import StepTrail

_encode: Final = msgspec.json.Encoder().encode


class AttemptRecord:
    """Belongs to the worker; the handler writes it through its context."""

    __slots__ = (
        "_child_failed",
        "_children",
        "_effects",
        "_task",
        "_trail",
        "actual_weight",
        "claim",
        "hold",
        "lengthen",
        "log",
        "loop",
        "result",
        "worker_id",
    )

    def __init__(
        self,
        claim: Claim,
        worker_id: str,
        hold: Hold,
        loop: asyncio.AbstractEventLoop,
        task: Task[Any],
        *,
        child_failed: Callable[[], None],
        lengthen: Callable[[int], None],
    ) -> None:
        self.claim = claim
        self.worker_id = worker_id
        self.hold = hold
        self.lengthen = lengthen
        self.loop = loop
        self.log = AttemptLog()
        self.actual_weight: int | None = None
        self.result: Stored | None = None
        self._task = task
        self._child_failed = child_failed
        # Most attempts need none of these.
        self._children: Children | None = None
        self._effects: AttemptEffects | None = None
        self._trail: StepTrail | None = None

    def on_loop(self) -> bool:
        """Whether this runs on the worker's event loop."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    @property
    def trail(self) -> StepTrail:
        """The steps. Raises `StaleCheckpoint`."""
        if self._trail is None:
            task = self._task
            self._trail = StepTrail(self.claim, self.hold, task.version, task.migrate)
        return self._trail

    @property
    def children(self) -> Children:
        """What the handler has started beside itself."""
        if self._children is None:
            self._children = Children(self._child_failed)
        return self._children

    @property
    def effects(self) -> AttemptEffects:
        """What happens in one transaction with an end."""
        if self._effects is None:
            self._effects = AttemptEffects(self.hold, self.success)
        return self._effects

    @property
    def unfinished(self) -> bool:
        """Whether there is something to wait for, or to make sure of, once the handler is done."""
        return (
            self._children is not None
            or self._trail is not None
            or self.hold.state is not Holding.HELD
        )

    async def finish(self) -> None:
        """Waits for what the handler has started, and makes sure that its effects are there.

        Raises what a child has raised, and `InvalidRequest` for a transaction that is not
        committed.
        """
        if self._children is not None:
            await self._children.join()
        await self.prove()

    async def give_up(self) -> BaseException | None:
        """Ends what the handler has started; what the first child that failed has raised."""
        if self._children is None:
            return None
        await self._children.cancel()
        return self._children.failure

    def success(self, returned: Any = None) -> Acknowledgement:
        """The report of success; what was returned is the result. Raises `InvalidRequest`."""
        if returned is not None:
            self.result = stored_result(returned)
        return Acknowledgement(
            lease=self.hold.lease,
            outcome=Outcome.SUCCESS,
            logs=self.log.lines,
            actual_weight=self.actual_weight,
            result=self.result,
        )

    async def prove(self) -> None:
        """Raises `InvalidRequest` when there are effects whose transaction is not committed."""
        if self.hold.state is Holding.COMMITTING and not await self.effects.concluded():
            raise InvalidRequest("the transaction of `once` was not committed")
        if self._trail is not None:
            await self._trail.prove()

    def take_over(self, logs: tuple[str, ...], actual_weight: int | None) -> None:
        """What a handler in another process has said."""
        for line in logs:
            self.log.write(line)
        self.actual_weight = actual_weight

    def close(self) -> None:
        """The attempt has ended: what its handler says from now on has no effect."""
        self.log.close()
        self.hold.state = Holding.ENDED


def stored_result(result: Any, schema_version: int = 1, *, field: str = "result") -> Stored:
    """Bytes as they are, anything else as JSON. Raises `InvalidRequest`."""
    if not 1 <= schema_version <= MAX_INT32:
        raise InvalidRequest(f"{field} schema version must be between 1 and {MAX_INT32}")
    if isinstance(result, bytes):
        encoded = result
    else:
        try:
            encoded = _encode(result)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"{field} is not encodable: {error}") from error
    if len(encoded) > MAX_OPAQUE_BYTES:
        raise InvalidRequest(f"{field} must be at most {MAX_OPAQUE_BYTES} bytes")
    return Stored(schema_version, encoded)
