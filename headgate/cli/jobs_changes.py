"""What `headgate jobs` does to jobs: to some by their ids, or to all that a selection takes."""

from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, Final

import typer

from headgate.cli.commands import Done, Ids, Yes, changing, confirmed, noun, said
from headgate.cli.control_api import ControlApi, segment
from headgate.cli.display import instant
from headgate.cli.exits import EXIT_REFUSED
from headgate.cli.operations import followed
from headgate.cli.times import instant_ms, milliseconds

application = noun("Change jobs.")

_AT_ONCE: Final = 1_000


class Action(StrEnum):
    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"


_DONE: Final = {
    Action.RETRY: "retried",
    Action.CANCEL: "cancelled",
    Action.DELETE: "deleted",
}


@changing(application, "retry")
def retry(api: ControlApi, ids: Ids) -> Done:
    """Make archived, cancelled or undecodable jobs available again."""
    return _act(api, Action.RETRY, ids)


@changing(application, "cancel")
def cancel(api: ControlApi, ids: Ids) -> Done:
    """Cancel jobs that have not ended."""
    return _act(api, Action.CANCEL, ids)


@changing(application, "delete")
def delete(api: ControlApi, ids: Ids) -> Done:
    """Delete jobs that do not run."""
    return _act(api, Action.DELETE, ids)


@changing(application, "promote")
def promote(
    api: ControlApi, job: Annotated[str, typer.Argument(metavar="ID", show_default=False)]
) -> Done:
    """Make a pending job available."""
    api.send("POST", f"/jobs/{segment(job)}/promote")
    return Done(f"promoted {job}")


@changing(application, "reschedule")
def reschedule(
    api: ControlApi,
    job: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    at: Annotated[
        str | None,
        typer.Option("--at", help="Such as 2026-01-31T08:00Z; without an offset it is local time."),
    ] = None,
    after: Annotated[
        str | None, typer.Option("--in", help="So long from now, such as 10m.")
    ] = None,
) -> Done:
    """Set when a scheduled or retryable job is due."""
    if (at is None) == (after is None):
        raise typer.BadParameter("say --at or --in")
    due = instant_ms(at) if at is not None else _now(api) + milliseconds(after or "")
    api.send("POST", f"/jobs/{segment(job)}/reschedule", {"scheduled_at_ms": due})
    return Done(f"rescheduled {job} to {instant(due)}")


def _now(api: ControlApi) -> int:
    """The clock by which jobs are due is the one of the database."""
    next_ms: int = api.get("/ticks", spec="@every:1", count=1)["ticks"][0]
    return next_ms - 1


@changing(application, "bulk")
def bulk(
    api: ControlApi,
    action: Annotated[Action, typer.Argument(show_default=False)],
    queue: Annotated[str | None, typer.Option("--queue", help="Of this queue.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="In this state.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Of this kind.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", help="Of this partition.")] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="Enqueued so long ago, such as 7d.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until all are changed.")] = True,
    yes: Yes = False,
) -> Done:
    """Retry, cancel or delete all jobs of a selection."""
    selected = {"queue": queue, "state": state, "kind": kind, "partition_key": partition}
    selector: dict[str, Any] = {name: each for name, each in selected.items() if each is not None}
    if older_than is not None:
        selector["older_than_ms"] = milliseconds(older_than)
    body = {"action": action.value, "selector": selector}
    # A look has a key of its own: the one that was given names the change.
    counted = api.with_fresh_keys().send("POST", "/jobs/bulk", {**body, "dry_run": True})
    number = counted["total_estimated"]
    if dry_run:
        return Done(f"would {action.value} {number} jobs", counted)
    confirmed(f"{action.value.capitalize()} {number} jobs?", yes=yes)
    begun = api.send("POST", "/jobs/bulk", body)
    return followed(api, begun["id"], wait=wait)


def _act(api: ControlApi, action: Action, ids: list[str]) -> Done:
    if len(ids) == 1:
        path = f"/jobs/{segment(ids[0])}"
        if action is Action.DELETE:
            api.send("DELETE", path)
        else:
            api.send("POST", f"{path}/{action.value}")
        return Done(said(_DONE[action], ids))
    report: dict[str, list[Any]] = {"succeeded": [], "failed": []}
    left = iter(ids)
    while part := list(islice(left, _AT_ONCE)):
        answer = api.send("POST", "/jobs/actions", {"action": action.value, "ids": part})
        for name, found in report.items():
            found += answer[name]
    lines = [f"{_DONE[action]} {len(report['succeeded'])}"]
    lines += [f"not {each['id']}: {each['reason']}" for each in report["failed"]]
    return Done("\n".join(lines), report, EXIT_REFUSED if report["failed"] else 0)
