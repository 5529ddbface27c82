"""Who listens: one method for events, one that stands around every attempt."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from headgate.model.job import Claim
from headgate.telemetry.events import Event

logger = logging.getLogger("headgate.telemetry")


class Span(Protocol):
    """What stands around the handler of one attempt, in its task."""

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

    def finish(self, outcome: str, error: str | None) -> None:
        """Says how the attempt ended, before it is left."""


class Telemetry(Protocol):
    """Listens to a worker. Both methods are called on its event loop and must not block; what they
    raise is logged and goes no further.
    """

    def on_event(self, event: Event, /) -> None:
        """Something happened. Events that are not known are to be passed over."""

    def attempt(self, claim: Claim, /) -> Span | None:
        """What to put around the handler of this claim; None for nothing."""


def ignore(event: Event, /) -> None:
    """Where nobody listens."""


class Telemetries:
    """Several listeners as one, each safe from the others and the worker safe from them all."""

    def __init__(self, listeners: Sequence[Telemetry]) -> None:
        self.listeners = tuple(listeners)

    def add(self, listener: Telemetry) -> None:
        """One more, from now on."""
        self.listeners = (*self.listeners, listener)

    def on_event(self, event: Event, /) -> None:
        for listener in self.listeners:
            try:
                listener.on_event(event)
            except Exception:
                logger.exception("%r failed", listener)

    def attempt(self, claim: Claim, /) -> "Spans":
        spans = []
        for listener in self.listeners:
            try:
                span = listener.attempt(claim)
            except Exception:
                logger.exception("%r failed", listener)
            else:
                if span is not None:
                    spans.append(span)
        return Spans(spans)


class Spans:
    """Several spans around one attempt."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._entered: list[Span] = []

    def __enter__(self) -> Self:
        for span in self._spans:
            try:
                span.__enter__()
            except Exception:
                logger.exception("%r failed", span)
            else:
                self._entered.append(span)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        try:
            with ExitStack() as stack:
                for span in self._entered:
                    stack.callback(span.__exit__, exception_type, exception, traceback)
        except Exception:
            logger.exception("a span failed")

    def finish(self, outcome: str, error: str | None) -> None:
        for span in self._entered:
            try:
                span.finish(outcome, error)
            except Exception:
                logger.exception("%r failed", span)
