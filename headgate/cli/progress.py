"""How far a long command has come: a line that renews itself, or now and then a new one."""

import sys
import time
from collections.abc import Callable
from typing import Final

import typer

_ON_TERMINAL_S: Final = 0.2
_ELSEWHERE_S: Final = 10.0


class Progress:
    """Shows on stderr how many of `total` are done, if there is a total, and how fast."""

    def __init__(
        self, noun: str, total: int | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._noun = noun
        self._total = total
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._started = self._shown_at = clock()
        self._first: int | None = None

    def show(self, done: int) -> None:
        """Tells where it stands, unless it was told a moment ago."""
        now = self._clock()
        if self._first is None:
            self._first = done
        interval = _ON_TERMINAL_S if self._terminal else _ELSEWHERE_S
        if now - self._shown_at < interval:
            return
        self._shown_at = now
        self._write(self._line(done, now))

    def end(self) -> None:
        """Makes room for what is said next."""
        if self._terminal:
            self._write("")

    def _line(self, done: int, now: float) -> str:
        rate = (done - (self._first or 0)) / max(now - self._started, 0.001)
        parts = [f"{done:,} {self._noun}"]
        if self._total:
            parts.append(f"of {self._total:,} ({done * 100 // self._total}%)")
        parts.append(f"{rate:,.0f}/s")
        if self._total and rate > 0:
            parts.append(f"{max(self._total - done, 0) / rate:,.0f} s left")
        return "  ".join(parts)

    def _write(self, line: str) -> None:
        typer.echo(f"\r\033[K{line}" if self._terminal else line, err=True, nl=not self._terminal)
