"""The application object: the tasks it knows, and when some of them are due."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TypeVar, Unpack

from headgate.client.errors import RegistrationError
from headgate.client.failures import IsFailure, RetryPolicy
from headgate.client.options import JobOptions
from headgate.client.periodic import DecoratePeriodic, declaration, queues_of, spec_of
from headgate.client.pipeline import EnqueuePipeline
from headgate.client.producer import JobProducer
from headgate.client.registry import Lifespan, TaskRegistry
from headgate.client.task import Task
from headgate.client.workflow import Workflow
from headgate.model.access import Identity
from headgate.model.envelope import DEFAULT_QUEUE
from headgate.model.errors import InvalidRequest
from headgate.model.job import Enqueued
from headgate.model.periodic import MissedPolicy, ScheduleDefinition
from headgate.model.periodic_hook import PeriodicHook
from headgate.model.workflow import COORDINATOR_QUEUE
from headgate.store.foreign import AsyncConnectionLike
from headgate.telemetry.telemetry import Telemetries, Telemetry

Payload = TypeVar("Payload")


class Headgate(TaskRegistry, JobProducer):
    """The tasks of an application, and the schedules of some of them.

    It needs no database to register tasks. To enqueue it must be open: in a process that only
    produces, `async with app:` or `await app.open()`; in a worker the worker lends it its store.
    """

    def __init__(
        self,
        *,
        dsn: str | None = None,
        schema: str = "public",
        name: str = "",
        pipeline: EnqueuePipeline | None = None,
        workflows: bool = False,
        periodic_hooks: Sequence[PeriodicHook] = (),
        lifespan: Lifespan | None = None,
        is_failure: IsFailure | None = None,
        retry_policy: RetryPolicy | None = None,
        telemetry: Sequence[Telemetry] = (),
    ) -> None:
        """Without a DSN, `open` asks the environment. `name` tells the schedules that this
        application declares from those of others. What it enqueues passes `pipeline`. With
        `workflows`, its workers coordinate workflows too; when they take up schedules, whosever
        those are, they tell `periodic_hooks`. A worker enters `lifespan(app)` when it starts and
        leaves it when it ends; inside is the place for `provide`. `is_failure` and `retry_policy`
        hold for tasks that have none of their own. Its workers tell `telemetry` what they do.
        Raises `InvalidRequest` for a DSN that is none.
        """
        TaskRegistry.__init__(self, is_failure=is_failure, retry_policy=retry_policy)
        JobProducer.__init__(self, dsn=dsn, schema=schema, pipeline=pipeline)
        self.lifespan = lifespan
        self.telemetry = Telemetries(telemetry)
        self._name = name
        self.workflows = workflows
        self.periodic_hooks = tuple(periodic_hooks)
        self._schedules: dict[str, ScheduleDefinition] = {}

    @property
    def schedules(self) -> Mapping[str, ScheduleDefinition]:
        """The schedules that the application declares, by id."""
        return MappingProxyType(self._schedules)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that the jobs of the tasks go to by default, those of the schedules, and that
        of workflows where it has some: what a worker serves that is not told otherwise.
        """
        of_tasks = {task.queue for task in self._tasks.values()}
        if self.workflows:
            of_tasks.add(COORDINATOR_QUEUE)
        return tuple(sorted(of_tasks | queues_of(self._schedules))) or (DEFAULT_QUEUE,)

    def periodic(
        self,
        cron: str | None = None,
        *,
        every: timedelta | None = None,
        every_ms: int | None = None,
        tz: str | None = None,
        id: str | None = None,
        kind: str | None = None,
        payload: Any = None,
        on_missed: str = MissedPolicy.SKIP,
        backfill_limit: int = 0,
        paused: bool = False,
        **options: Unpack[JobOptions],
    ) -> DecoratePeriodic:
        """Declares that a job of the decorated task is due again and again.

            @app.periodic("0 9 * * MON-FRI", tz="Europe/Madrid")
            @app.task("report")
            async def report() -> None: ...

        `cron` has five fields, or six with seconds first, on the wall clock of `tz` or in UTC: a
        time that does not exist on a day is skipped, one that comes twice fires once. `every` is a
        period of its own, counted from the epoch. A plain function becomes a task of `kind`, or of
        its own name. `id` names the schedule, by default as the kind; `payload` and `options` are
        those of its jobs. After an outage, `on_missed` makes up for the newest tick alone (`skip`,
        `run_once`) or for up to `backfill_limit` of them (`backfill`).

        The database learns of it by `sync_schedules`, which a worker does when it starts. Raises
        `RegistrationError` at once for whatever could not be enqueued when it is due.
        """
        spec = spec_of(cron, every, every_ms, tz)

        def register(handler: Task[Any] | Callable[..., Any]) -> Task[Any]:
            task = self._task_of(handler, kind, options)
            schedule_id = task.kind if id is None else id
            if schedule_id in self._schedules:
                raise RegistrationError(f"schedule {schedule_id}: exists already; give it an id")
            self._schedules[schedule_id] = declaration(
                task,
                spec,
                schedule_id=schedule_id,
                payload=payload,
                options=options,
                on_missed=on_missed,
                backfill_limit=backfill_limit,
                paused=paused,
            )
            return task

        return register

    def _task_of(
        self, handler: Task[Any] | Callable[..., Any], kind: str | None, options: JobOptions
    ) -> Task[Any]:
        if not isinstance(handler, Task):
            name = getattr(handler, "__name__", "") if kind is None else kind
            return self.task(name, **options)(handler)
        if kind is not None:
            raise RegistrationError(f"task {handler.kind} has its kind already")
        if self._tasks.get(handler.kind) is not handler:
            raise RegistrationError(f"task {handler.kind} is not one of this application")
        return handler

    async def enqueue_workflow(
        self,
        workflow: Workflow,
        *,
        connection: AsyncConnectionLike | None = None,
        identity: Identity | None = None,
    ) -> list[Enqueued]:
        """Enqueues a workflow whole or not at all; its coordinator is the first of the answers.

        The same workflow again succeeds and changes nothing, another one of its id is an
        `IdConflict`. Raises what `enqueue_many` and `Workflow.jobs` raise, and `InvalidRequest`
        when the application was made without `workflows`.
        """
        if not self.workflows:
            raise InvalidRequest("nobody would coordinate it: make the application with workflows")
        return await self.enqueue_many(workflow.jobs(), connection=connection, identity=identity)

    async def sync_schedules(self, *, prune: bool = False) -> list[str]:
        """Makes the declared schedules known to the store; all of them or none.

        One with the same spec as before keeps its next run, and one that an operator has paused
        stays paused. With `prune`, schedules that an application of this name declared once and
        does not any more are removed; their ids are returned. Raises `InvalidRequest` for pruning
        without a name, `NotOpen` and `StoreUnavailable`.
        """
        if prune and not self._name:
            raise InvalidRequest("to prune schedules, give the application a name")
        if not self._schedules and not prune:
            return []
        return await self.store.schedules.declare(
            list(self._schedules.values()), owner=self._name, prune=prune
        )
