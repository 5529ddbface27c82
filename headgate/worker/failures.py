"""What to write down about a handler that failed."""

import traceback
from asyncio import CancelledError
from types import TracebackType

from headgate.model.texts import clean

_FRAMES_KEPT = 12


def failure_text(raised: BaseException) -> str:
    """The exception as a line, then where in the handler it came from.

    What is no ordinary exception begins with `panic:`. Never raises, whatever the exception does
    when it is asked for its text.
    """
    name = type(raised).__qualname__
    try:
        message = str(raised)
    except Exception:
        message = "(its text cannot be had)"
    line = f"{name}: {message}" if message else name
    if is_panic(raised):
        line = f"panic: {line}"
    frames = traceback.format_tb(_handler_frames(raised.__traceback__), limit=-_FRAMES_KEPT)
    return clean("\n".join((clean(line), *(frame.rstrip() for frame in frames))))


def is_panic(raised: BaseException) -> bool:
    """Whether this is beyond what a handler is expected to raise.

    A cancellation is not: the handler waited for something that was cancelled.
    """
    if isinstance(raised, MemoryError | RecursionError):
        return True
    return not isinstance(raised, Exception | CancelledError)


def _handler_frames(frames: TracebackType | None) -> TracebackType | None:
    """The frames without our own on top of them."""
    while frames is not None and _is_ours(frames):
        frames = frames.tb_next
    return frames


def _is_ours(frames: TracebackType) -> bool:
    module: str = frames.tb_frame.f_globals.get("__name__", "")
    return module.startswith(("headgate.worker.", "headgate.client."))
