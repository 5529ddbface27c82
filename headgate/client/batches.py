"""Handlers that run several jobs at once, each of which stays a job of its own."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin

from headgate.client.errors import RegistrationError
from headgate.client.signature import Signature
from headgate.client.task import Execution, Task
from headgate.model.limits import MAX_INT32

if TYPE_CHECKING:
    from headgate.worker.context import JobContext

Payload = TypeVar("Payload")


class BatchJob(Generic[Payload]):
    """One job of a batch: its context, with a lease and a history of its own, and its payload."""

    __slots__ = ("context", "payload")

    def __init__(self, context: "JobContext", payload: Payload) -> None:
        self.context = context
        self.payload = payload


class BatchTask(Task[Payload]):
    """A task whose handler takes a list of jobs. Made by `Headgate.batch_task`, not by hand."""

    def __init__(
        self,
        app: Any,
        kind: str,
        handler: Callable[..., Any],
        *,
        max_size: int,
        max_delay_ms: int,
        **settings: Any,
    ) -> None:
        """Raises `RegistrationError` for what cannot be used."""
        for name, value in (("max_size", max_size), ("max_delay_ms", max_delay_ms)):
            if not 1 <= value <= MAX_INT32:
                raise RegistrationError(f"task {kind}: {name} must be between 1 and {MAX_INT32}")
        super().__init__(app, kind, handler, **settings)
        self.max_size = max_size
        self.max_delay_ms = max_delay_ms

    def _read(self, handler: Callable[..., Any]) -> Signature:
        try:
            parameters = list(inspect.signature(handler, eval_str=True).parameters.values())
        except (NameError, TypeError, ValueError) as error:
            raise RegistrationError(f"batch handler of {self.kind}: {error}") from error
        annotation = parameters[0].annotation if len(parameters) == 1 else None
        inner = get_args(annotation)[0] if get_origin(annotation) is list else None
        if get_origin(inner) is not BatchJob or not inspect.iscoroutinefunction(handler):
            raise RegistrationError(
                f"batch handler of {self.kind} is an `async def` of one `list[BatchJob[Payload]]`"
            )
        return Signature(is_async=True, takes_context=True, payload_type=get_args(inner)[0])

    def _execution(self, process: bool) -> Execution:
        return Execution.BATCH
