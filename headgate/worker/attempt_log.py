"""The lines that an attempt leaves in the history of its job."""

import logging
from collections.abc import MutableMapping
from typing import Any, Final

from headgate.model.texts import clean
from headgate.worker.running import current_job

MAX_LOG_LINES: Final = 100
MAX_LOG_BYTES: Final = 2_048
LOGGER: Final = "headgate.job"
_LOG_FULL: Final = f"[only the first {MAX_LOG_LINES} lines are kept]"


class AttemptLog:
    """The first 100 lines of an attempt, of each the first 2 KiB. From any thread."""

    __slots__ = ("_closed", "_lines")

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._closed = False

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def write(self, text: str) -> None:
        """Keeps the line; without effect once the attempt has ended. Threads that write at the same
        moment may add a line too many each.
        """
        if self._closed:
            return
        if len(self._lines) < MAX_LOG_LINES:
            self._lines.append(clean(text, MAX_LOG_BYTES))
        elif len(self._lines) == MAX_LOG_LINES:
            self._lines.append(_LOG_FULL)

    def close(self) -> None:
        self._closed = True


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs to the process as any logger does, and into the history of one job.

    Further keywords become fields of the line: `ctx.logger.info("sent", recipient=3)` keeps
    `INFO sent recipient=3`, and the record carries them as its attribute `fields`.
    """

    _RESERVED: Final = frozenset({"exc_info", "stack_info", "stacklevel", "extra"})

    def __init__(self, log: AttemptLog, job_id: str, kind: str) -> None:
        super().__init__(logging.getLogger(LOGGER), {"job_id": job_id, "kind": kind})
        self._lines = log

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        fields = {name: kwargs.pop(name) for name in kwargs.keys() - self._RESERVED}
        ordered = {name: fields[name] for name in sorted(fields)}
        try:
            text = str(msg) % args if args else str(msg)
        except (TypeError, ValueError):
            # A line that was meant is worth more than its form.
            text = f"{msg} {args}"
        if level >= logging.INFO:
            self._lines.write(_line(level, text, ordered))
        if self.isEnabledFor(level):
            kwargs["extra"] = {**(kwargs.get("extra") or {}), "fields": ordered}
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            super().log(level, "%s", text, **kwargs)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs


def _line(level: int, text: str, fields: dict[str, Any]) -> str:
    written = [logging.getLevelName(level), text, *(f"{name}={fields[name]}" for name in fields)]
    return " ".join(written)


class JobLogHandler(logging.Handler):
    """Keeps what any logger says in the history of the job that said it.

    Attach it to the loggers of the application. Records that no job has caused are passed over, and
    so are those of `ctx.logger`, which are kept anyway.
    """

    def emit(self, record: logging.LogRecord) -> None:
        job = None if record.name == LOGGER else current_job()
        if job is not None:
            try:
                job.log(self.format(record))
            except Exception:
                self.handleError(record)

    def format(self, record: logging.LogRecord) -> str:
        """With a level before the message, unless there is a formatter."""
        text = super().format(record)
        return text if self.formatter else f"{record.levelname} {text}"
