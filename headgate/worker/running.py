"""Which attempt some code is a part of."""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from headgate.worker.context import JobContext


class Running(Protocol):
    """An attempt that runs here."""

    @property
    def context(self) -> "JobContext | None": ...


running: Final[ContextVar[Running | None]] = ContextVar("headgate_running", default=None)


def current_job() -> "JobContext | None":
    """The job that this code runs for, from any depth of a handler; None outside of one."""
    attempt = running.get()
    return None if attempt is None else attempt.context
