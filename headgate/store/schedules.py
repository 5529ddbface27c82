"""Schedules: defining them, reading them, and taking up what is due."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Executable

from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.job import Enqueued
from headgate.model.limits import check_characters, check_name
from headgate.model.page import Page, PageRequest
from headgate.model.periodic import (
    MAX_EVENTS,
    DueSchedule,
    Schedule,
    ScheduleDefinition,
    ScheduleDetail,
    ScheduleEvent,
    ScheduleEventPage,
    Tick,
    check_definition,
    manual_request,
)
from headgate.model.schedule import next_after, validate
from headgate.queries.schedules import (
    delete_schedule,
    due_schedules,
    one_definition,
    one_schedule,
    orphan_events,
    page_of_events,
    page_of_schedules,
    prune_schedules,
    put_schedule,
    read_clock,
    set_schedule_paused,
)
from headgate.store.database import Executor, Row, Session
from headgate.store.notifier import Notifier
from headgate.store.producer import Producer
from headgate.store.ticks import Fired, definition_of, fail, fire

Found = TypeVar("Found")

_NEWEST: Final = 2**63 - 1
_FIRST: Final = DueSchedule(-1, "")


class Schedules:
    """The schedules of an installation. What happens when they are due is a duty's work."""

    def __init__(
        self, database: Executor, hot_path: Executor, producer: Producer, notifier: Notifier
    ) -> None:
        self._database = database
        self._hot_path = hot_path
        self._producer = producer
        self._notifier = notifier

    async def put(self, definition: ScheduleDefinition) -> None:
        """Creates or replaces a schedule. With the same spec it keeps its next run, with another
        one it begins anew after the database's now.

        Raises `InvalidRequest` for a spec that is not understood and for everything that would be
        refused when its jobs are enqueued.
        """
        check_definition(definition)
        await self._database.transact(lambda session: put(session, definition))

    async def get(
        self, schedule_id: str, *, include_payload: bool = False
    ) -> ScheduleDetail | None:
        """The schedule of this id, or None."""
        statement = one_schedule(payload=include_payload)
        found = await self._read(statement, schedule_id, lambda row: ScheduleDetail(**row))
        return next(iter(found), None)

    async def set_paused(self, schedule_id: str, *, paused: bool) -> None:
        """Stops the ticks of a schedule, or lets them go on. Raises `NotFound`.

        What it missed meanwhile is made up for as the schedule says.
        """
        check_characters("schedule id", schedule_id)
        statement = set_schedule_paused(paused=paused)
        if not await self._database.fetch(statement, {"schedule_id": schedule_id}):
            raise NotFound(f"schedule {schedule_id}")

    async def preview(self, spec: str, count: int) -> list[int]:
        """The next ticks that a spec would have from now on. Raises `InvalidRequest`."""
        check_characters("spec", spec)
        validate(spec)
        at = (await self._database.fetch(read_clock()))[0]["now_ms"]
        ticks: list[int] = []
        with suppress(InvalidRequest):  # the calendar ends
            while len(ticks) < count:
                at = next_after(spec, at)
                ticks.append(at)
        return ticks

    async def definition(self, schedule_id: str) -> ScheduleDefinition | None:
        """How the schedule of this id was defined, payload included, or None."""
        return next(iter(await self._read(one_definition(), schedule_id, definition_of)), None)

    async def page(self, request: PageRequest) -> Page[Schedule]:
        """A page of the schedules, by id. Raises `InvalidRequest` for a size it cannot have."""
        rows = await self._database.fetch(page_of_schedules(), request.parameters())
        return request.page([_shown(row) for row in rows])

    async def delete(self, schedule_id: str) -> None:
        """Removes a schedule. Its jobs stay, and its events for a while. Raises `NotFound`."""
        await self._database.transact(lambda session: delete(session, schedule_id))

    async def events(
        self, schedule_id: str, *, limit: int, cursor: int | None = None
    ) -> ScheduleEventPage:
        """What became of the ticks of a schedule, newest first, before the event of the cursor.

        Nothing for a schedule that never was. Raises `InvalidRequest` for a limit outside 1 to 100.
        """
        if not 1 <= limit <= MAX_EVENTS:
            raise InvalidRequest(f"schedule event limit must be between 1 and {MAX_EVENTS}")
        before = _NEWEST if cursor is None else min(cursor, _NEWEST)
        events = await self._read(
            page_of_events(),
            schedule_id,
            lambda row: ScheduleEvent(**row),
            before_event_id=before,
            page_size=limit,
        )
        return ScheduleEventPage(
            events=events, next_cursor=events[-1].event_id if len(events) == limit else None
        )

    async def run_now(self, schedule_id: str, *, request_key: str | None = None) -> Enqueued:
        """Makes one job of a schedule, paused or not, beside its ticks; the next run stays.

        A repetition of the key for this schedule answers with the job it made at first. Raises
        `NotFound`, and what an enqueue raises.
        """
        check_characters("schedule id", schedule_id)
        definition = await self.definition(schedule_id)
        if definition is None:
            raise NotFound(f"schedule {schedule_id}")
        request = None if request_key is None else manual_request(schedule_id, request_key)
        (enqueued,) = await self._producer.enqueue([definition.job()], request=request)
        return enqueued

    async def declare(
        self, definitions: Sequence[ScheduleDefinition], *, owner: str = "", prune: bool = False
    ) -> list[str]:
        """Makes the schedules of an application what its code says; all of them or none.

        One that exists keeps being paused or not. With `prune`, those that the same `owner`
        declared before and does not any more are removed; their ids are returned. Raises
        `InvalidRequest` as `put` does, and for pruning without an owner.
        """
        if prune and not owner:
            raise InvalidRequest("pruning schedules needs an owner")
        check_name("schedule owner", owner)
        for definition in definitions:
            check_definition(definition)
        return await self._database.transact(
            lambda session: _declare(session, definitions, owner=owner, prune=prune)
        )

    async def due(self, limit: int, *, after: DueSchedule | None = None) -> list[DueSchedule]:
        """Up to `limit` schedules that are due, in their order, after the given one."""
        seen = after or _FIRST
        rows = await self._hot_path.fetch(
            due_schedules(),
            {
                "after_next_run_ms": seen.next_run_ms,
                "after_id": seen.id,
                "batch_size": limit,
            },
        )
        return [DueSchedule(row["next_run_ms"], row["id"]) for row in rows]

    async def fire(self, due: DueSchedule) -> Fired:
        """Enqueues the ticks of a due schedule, records them and moves its next run, all at once.

        Any number of processes may do it at the same time. Raises `StoreError`; then nothing was
        done.
        """
        fired = await self._hot_path.transact(lambda session: fire(session, due))
        self._notifier.wake(fired.queues)
        return fired

    async def fail(self, due: DueSchedule, reason: str) -> list[Tick]:
        """Records that `fire` raised. The schedule stays due."""
        return await self._hot_path.transact(lambda session: fail(session, due, reason))

    async def _read(
        self,
        statement: Executable,
        schedule_id: str,
        read: Callable[[Row], Found],
        **parameters: int,
    ) -> list[Found]:
        if not _is_storable(schedule_id):
            return []
        rows = await self._database.fetch(statement, {"schedule_id": schedule_id, **parameters})
        return [read(row) for row in rows]


async def put(session: Session, definition: ScheduleDefinition) -> None:
    """Writes a definition that was judged, in the transaction of the session."""
    now = (await session.fetch(read_clock()))[0]["now_ms"]
    await session.fetch(put_schedule(declared=False), _values(definition, now, owner=""))


async def delete(session: Session, schedule_id: str) -> None:
    """Removes a schedule in the transaction of the session. Raises `NotFound`."""
    check_characters("schedule id", schedule_id)
    if not await session.fetch(delete_schedule(), {"schedule_id": schedule_id}):
        raise NotFound(f"schedule {schedule_id}")
    await session.fetch(orphan_events(), {"gone_ids": [schedule_id]})


async def _declare(
    session: Session, definitions: Sequence[ScheduleDefinition], *, owner: str, prune: bool
) -> list[str]:
    now = (await session.fetch(read_clock()))[0]["now_ms"]
    # In the order of their ids: workers that start together must not wait for each other in a ring.
    for definition in sorted(definitions, key=lambda each: each.id):
        await session.fetch(put_schedule(declared=True), _values(definition, now, owner=owner))
    if not prune:
        return []
    kept = [definition.id for definition in definitions]
    rows = await session.fetch(prune_schedules(), {"owner": owner, "kept_ids": kept})
    gone = sorted(row["id"] for row in rows)
    if gone:
        await session.fetch(orphan_events(), {"gone_ids": gone})
    return gone


def _values(definition: ScheduleDefinition, now_ms: int, *, owner: str) -> dict[str, Any]:
    fields = msgspec.structs.asdict(definition)
    values = {f"new_{name}": value for name, value in fields.items()}
    return {
        **values,
        "new_tags": list(definition.tags),
        "new_on_missed": str(definition.on_missed),
        "new_next_run_ms": next_after(definition.spec, now_ms),
        "new_declared_by": owner,
    }


def _shown(row: Row) -> Schedule:
    return Schedule(**row)


def _is_storable(text: str) -> bool:
    """Whether a row can hold the text at all; what cannot be stored is not found either."""
    try:
        check_characters("", text)
    except InvalidRequest:
        return False
    return True
