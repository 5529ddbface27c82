"""Handlers that do not end although they were told to: who they are, and where they hang."""

import asyncio
import logging
import sys
import traceback
import weakref
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headgate.worker.attempt import Attempt

_FRAMES: Final = 12

logger = logging.getLogger("headgate.worker")


class StuckWatch:
    """Looks at an attempt some time after it was told to end, and complains once if it still runs.

    Its slot stays taken. A thread cannot be ended from outside; a handler on the event loop that
    swallows its cancellation could go on for ever.
    """

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms

    def told_to_end(self, attempt: "Attempt") -> None:
        """Begins to wait, on the worker's event loop."""
        loop = asyncio.get_running_loop()
        # Most of them end at once, and need not be remembered for that.
        loop.call_later(self._after_ms / 1000, self._look, weakref.ref(attempt))

    def _look(self, told: "weakref.ref[Attempt]") -> None:
        attempt = told()
        if attempt is not None and attempt.running:
            logger.warning(
                "job %s (%s) still runs %d ms after it was told to end: %s\n%s",
                attempt.claim.job_id,
                attempt.claim.kind,
                self._after_ms,
                attempt.stop_reason,
                attempt.stack(),
            )


def stack_of_task(task: "asyncio.Task[None]") -> str:
    """Where a task waits, the innermost call last."""
    frames: list[traceback.FrameSummary] = []
    awaited: object = task.get_coro()
    while awaited is not None and len(frames) < _FRAMES:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            frames.extend(traceback.extract_stack(frame, limit=1))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return "".join(traceback.format_list(frames))


def stack_of_thread(identity: int | None) -> str:
    """Where a thread is, the innermost call last."""
    frame = None if identity is None else sys._current_frames().get(identity)
    return "" if frame is None else "".join(traceback.format_stack(frame)[-_FRAMES:])
