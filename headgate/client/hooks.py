"""Hooks: told of each attempt to write jobs, and how it ended. They change nothing."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from headgate.client.middleware import EnqueueRequest
from headgate.model.errors import DuplicateJob, IdConflict
from headgate.model.job import Enqueued

logger = logging.getLogger("headgate.client")


class EnqueueSucceeded(msgspec.Struct, frozen=True):
    """The jobs are in, or were in already."""

    jobs: list[Enqueued]


class EnqueueDuplicated(msgspec.Struct, frozen=True):
    """Another job holds the unique key. `replaced`: it was changed as the enqueue asked."""

    existing_id: str
    replaced: bool


class EnqueueConflicted(msgspec.Struct, frozen=True):
    """The id belongs to another job."""

    job_id: str


class EnqueueRejected(msgspec.Struct, frozen=True):
    """Anything else. The error may be the cancellation of the caller."""

    error: BaseException


EnqueueOutcome: TypeAlias = (
    EnqueueSucceeded | EnqueueDuplicated | EnqueueConflicted | EnqueueRejected
)


class EnqueueHook:
    """To be derived from. Both methods are called once for each call to the store, in the order of
    registration, and must not wait. What they raise is logged and has no effect.

    Nothing is called for what never reaches the store: turned down by a middleware or the
    authorizer, or refused by an open circuit.
    """

    def on_begin(self, request: EnqueueRequest) -> None:
        """The store is about to be asked. The request is to be read, not changed."""

    def on_end(self, request: EnqueueRequest, outcome: EnqueueOutcome) -> None:
        """The store has answered, or will not."""


def outcome_of(error: BaseException) -> EnqueueOutcome:
    """How an enqueue ended that raised."""
    if isinstance(error, DuplicateJob):
        return EnqueueDuplicated(error.existing_id, error.replaced)
    if isinstance(error, IdConflict):
        return EnqueueConflicted(error.job_id)
    return EnqueueRejected(error)


def tell(calls: Iterable[Callable[..., None]], *arguments: Any) -> None:
    """Calls each; an observer that fails must not fail the enqueue."""
    for call in calls:
        try:
            call(*arguments)
        except Exception:
            logger.exception("an enqueue hook failed")
