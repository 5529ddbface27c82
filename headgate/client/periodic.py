"""Schedules that an application declares beside its tasks."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol, TypeVar, overload

from headgate.client.durations import duration_ms
from headgate.client.errors import RegistrationError
from headgate.client.options import JobOptions
from headgate.client.signature import HandlerContext
from headgate.client.task import Task
from headgate.model.errors import HeadgateError
from headgate.model.periodic import ScheduleDefinition, check_definition
from headgate.model.schedule import CRON_ZONE, EVERY

Payload = TypeVar("Payload")
Context = TypeVar("Context", bound=HandlerContext)


class DecoratePeriodic(Protocol):
    """Gives a task a schedule, or turns a handler into a task that has one."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a task can be called too
        self, handler: Task[Payload], /
    ) -> Task[Payload]: ...
    @overload
    def __call__(self, handler: Callable[[], Any], /) -> Task[None]: ...
    @overload
    def __call__(self, handler: Callable[[Context], Any], /) -> Task[None]: ...
    @overload
    def __call__(self, handler: Callable[[Context, Payload], Any], /) -> Task[Payload]: ...
    @overload
    def __call__(self, handler: Callable[[Payload], Any], /) -> Task[Payload]: ...


def spec_of(
    cron: str | None, every: timedelta | None, every_ms: int | None, timezone: str | None
) -> str:
    """The spec that says when. Raises `RegistrationError` unless it is said once."""
    try:
        period_ms = duration_ms("every", every, every_ms)
    except (HeadgateError, TypeError) as error:
        raise RegistrationError(f"schedule: {error}") from error
    if (cron is None) == (period_ms is None):
        raise RegistrationError("schedule: give a cron expression or every, one of them")
    spec = f"{EVERY}{period_ms}" if cron is None else cron
    return spec if timezone is None else f"{CRON_ZONE}{timezone} {spec}"


def declaration(
    task: Task[Any],
    spec: str,
    *,
    schedule_id: str,
    payload: Any,
    options: JobOptions,
    **policy: Any,
) -> ScheduleDefinition:
    """The schedule that makes jobs of `task` with this payload and these options.

    Raises `RegistrationError` for a spec that is not understood and for what no job could have.
    """
    unknown = options.keys() - JobOptions.__annotations__.keys()
    if unknown:
        names = ", ".join(sorted(unknown))
        raise RegistrationError(f"schedule {schedule_id}: unknown option: {names}")
    if task.encrypted:
        raise RegistrationError(
            f"schedule {schedule_id}: an encrypted payload is for one job, not for many"
        )
    try:
        job = task.job(payload, **options)
        definition = ScheduleDefinition(
            id=schedule_id,
            spec=spec,
            kind=job.kind,
            payload=job.payload,
            schema_version=job.schema_version,
            queue=job.queue,
            partition_key=job.partition_key,
            rate_class=job.rate_class,
            priority=job.priority,
            weight=job.weight,
            max_attempts=job.max_attempts,
            timeout_ms=job.timeout_ms,
            retention_ms=job.retention_ms,
            tags=job.tags,
            **policy,
        )
        check_definition(definition)
    except (HeadgateError, TypeError) as error:
        raise RegistrationError(f"schedule {schedule_id}: {error}") from error
    return definition


def queues_of(schedules: Mapping[str, ScheduleDefinition]) -> set[str]:
    """Where the jobs of the schedules go."""
    return {definition.queue for definition in schedules.values()}
