"""The registry of workers: what each says of itself, and the command that waits for it."""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Executable,
    Integer,
    Text,
    bindparam,
    delete,
    null,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert

from headgate.queries.clock import instant
from headgate.queries.shapes import materialized
from headgate.tables import worker

LIVE_WINDOW_MS: Final = 900_000
"""A worker counts as live for this long after its last heartbeat."""


@cache
def heartbeat() -> Executable:
    """Writes what a worker says of itself; a row (command) with what an operator wants of it."""
    clock = materialized(select(instant().label("now_ms")), "clock")
    values: dict[str, ColumnElement[Any]] = {
        "worker_id": bindparam("beat_worker_id", type_=Text),
        "host": bindparam("beat_host", type_=Text),
        "pid": bindparam("beat_pid", type_=Integer),
        "queues": bindparam("beat_queues", type_=ARRAY(Text)),
        "concurrency": bindparam("beat_concurrency", type_=Integer),
        "started_at_ms": clock.c.now_ms,
        "heartbeat_at_ms": clock.c.now_ms,
        "inflight": bindparam("beat_inflight", type_=Integer),
        "polls": bindparam("beat_polls", type_=BigInteger),
        "empty_polls": bindparam("beat_empty_polls", type_=BigInteger),
        "status": bindparam("beat_status", type_=Text),
        "duties_active": bindparam("beat_duties_active", type_=Boolean),
    }
    writing = insert(worker).from_select([*values], select(*values.values()))
    # Host, process and start belong to the first beat of an id.
    changing = (
        "queues",
        "concurrency",
        "heartbeat_at_ms",
        "inflight",
        "polls",
        "empty_polls",
        "status",
        "duties_active",
    )
    return writing.on_conflict_do_update(
        index_elements=[worker.c.worker_id],
        set_={name: writing.excluded[name] for name in changing},
    ).returning(worker.c.command)


@cache
def take_command() -> Executable:
    """Clears a command before it is carried out, so that it does not meet a successor."""
    return (
        update(worker)
        .where(
            worker.c.worker_id == bindparam("beat_worker_id", type_=Text),
            worker.c.command == bindparam("taken_command", type_=Text),
        )
        .values(command=null())
        .returning(worker.c.worker_id)
    )


@cache
def signal() -> Executable:
    """Leaves a command for a worker, or takes it back with NULL; a row when there is such one."""
    return (
        update(worker)
        .where(worker.c.worker_id == bindparam("beat_worker_id", type_=Text))
        .values(command=bindparam("new_command", type_=Text))
        .returning(worker.c.worker_id)
    )


@cache
def leave() -> Executable:
    """Takes a worker off the registry."""
    return delete(worker).where(worker.c.worker_id == bindparam("beat_worker_id", type_=Text))
