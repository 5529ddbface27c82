"""Who may enqueue what: one question per job, answered before the store is asked."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from headgate.model.access import Identity
from headgate.model.envelope import Envelope
from headgate.model.errors import EnqueueForbidden


class Source(StrEnum):
    """Where an enqueue comes from."""

    LIBRARY = "library"
    HTTP = "http"


class EnqueueContext(msgspec.Struct, frozen=True):
    """Where an enqueue comes from, and who asks, as far as somebody vouches for it.

    `identity` is what the control API made sure of, or what the caller in this process said; it is
    never read from a header.
    """

    source: Source = Source.LIBRARY
    identity: Identity | None = None


LIBRARY: Final = EnqueueContext()
"""An enqueue of this process itself, on nobody's behalf."""


class Authorizer(Protocol):
    """Whether a job may be enqueued. Called once per job, and quick: it must not wait."""

    def __call__(self, job: Envelope, context: EnqueueContext, /) -> bool: ...


def allow_all(job: Envelope, context: EnqueueContext, /) -> bool:
    """Allows everything."""
    return True


def authorize(authorizer: Authorizer, jobs: Sequence[Envelope], context: EnqueueContext) -> None:
    """Raises `EnqueueForbidden` for the first job that is denied; then none of them may enter."""
    for job in jobs:
        if not authorizer(job, context):
            raise EnqueueForbidden(job.kind)
