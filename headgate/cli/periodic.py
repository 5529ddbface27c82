"""`headgate periodic`: jobs that are due again and again."""

import base64
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer

from headgate.cli.commands import Done, Limit, Listing, Sheet, changing, noun, reading
from headgate.cli.control_api import ControlApi, segment
from headgate.cli.times import milliseconds

application = noun("Look at schedules, set them, run them now.")

Schedule = Annotated[str, typer.Argument(metavar="ID", show_default=False)]


class Missed(StrEnum):
    SKIP = "skip"
    RUN_ONCE = "run_once"
    BACKFILL = "backfill"


@reading(
    application,
    "list",
    shows=Listing(("id", "spec", "kind", "queue", "next_run_ms", "last_enqueued_ms", "paused")),
)
def list_schedules(api: ControlApi) -> Iterable[Any]:
    """List schedules and when they are due."""
    return api.listed("/periodic")


@reading(application, "show", shows=Sheet())
def show(
    api: ControlApi,
    schedule: Schedule,
    payload: Annotated[bool, typer.Option("--payload", help="With what its jobs carry.")] = False,
) -> Any:
    """Show a schedule."""
    return api.get(f"/periodic/{segment(schedule)}", include_payload=payload)


@reading(
    application,
    "events",
    shows=Listing(("recorded_at_ms", "tick_ms", "outcome", "reason", "job_id")),
)
def events(api: ControlApi, schedule: Schedule, limit: Limit = 30) -> Any:
    """List what became of the ticks of a schedule, newest first."""
    path = f"/periodic/{segment(schedule)}/enqueue-events"
    found = api.get(path, limit=min(limit, 100))
    return found["events"]


@changing(application, "set")
def set_schedule(
    api: ControlApi,
    schedule: Schedule,
    kind: Annotated[str, typer.Option("--kind", show_default=False, help="What its jobs are.")],
    spec: Annotated[
        str,
        typer.Option(
            "--spec", show_default=False, help="Five or six cron fields, or @every:<milliseconds>."
        ),
    ],
    payload: Annotated[
        str, typer.Option("--payload", help="What its jobs carry, as text, such as JSON.")
    ] = "{}",
    queue: Annotated[str, typer.Option("--queue", help="Where they go.")] = "default",
    partition: Annotated[str, typer.Option("--partition", help="Their partition.")] = "",
    rate_class: Annotated[str, typer.Option("--rate-class", help="Their rate class.")] = "",
    priority: Annotated[int, typer.Option("--priority", help="Higher goes first.")] = 0,
    max_attempts: Annotated[int, typer.Option("--max-attempts", min=1)] = 25,
    retention: Annotated[
        str, typer.Option("--retention", help="How long they are kept, such as 1d.")
    ] = "0",
    on_missed: Annotated[
        Missed, typer.Option("--on-missed", help="What is made up for after an outage.")
    ] = Missed.SKIP,
    backfill_limit: Annotated[
        int, typer.Option("--backfill-limit", help="How many ticks, with backfill.", min=0)
    ] = 0,
    paused: Annotated[bool, typer.Option("--paused", help="Nothing is due.")] = False,
) -> Done:
    """Create a schedule, or set it anew; without --paused it runs."""
    body = {
        "kind": kind,
        "spec": spec,
        "payload": base64.b64encode(payload.encode()).decode(),
        "queue": queue,
        "partition_key": partition,
        "rate_class": rate_class,
        "priority": priority,
        "max_attempts": max_attempts,
        "retention_ms": milliseconds(retention),
        "on_missed": on_missed.value,
        "backfill_limit": backfill_limit,
        "paused": paused,
    }
    api.send("PUT", f"/periodic/{segment(schedule)}", body)
    return Done(f"set {schedule}")


@changing(application, "run")
def run(api: ControlApi, schedule: Schedule) -> Done:
    """Make a job of a schedule now; its next run stays."""
    answer = api.send("POST", f"/periodic/{segment(schedule)}/run")
    return Done(f"enqueued {answer['id']}", answer)


@changing(application, "pause")
def pause(api: ControlApi, schedule: Schedule) -> Done:
    """Stop the ticks of a schedule."""
    api.send("POST", f"/periodic/{segment(schedule)}/pause")
    return Done(f"paused {schedule}")


@changing(application, "resume")
def resume(api: ControlApi, schedule: Schedule) -> Done:
    """Let the ticks of a paused schedule go on."""
    api.send("POST", f"/periodic/{segment(schedule)}/resume")
    return Done(f"resumed {schedule}")


@changing(application, "delete")
def delete(api: ControlApi, schedule: Schedule) -> Done:
    """Delete a schedule; its jobs stay."""
    api.send("DELETE", f"/periodic/{segment(schedule)}")
    return Done(f"deleted {schedule}")
