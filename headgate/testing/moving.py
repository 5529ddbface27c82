"""Putting a job of a queue of its own where it would have been."""

from functools import cache
from typing import Any

from sqlalchemy import Select, Text, bindparam, select, update

from headgate.queries.lanes import LANE, register
from headgate.queries.states import state_value
from headgate.store.store import Store
from headgate.tables import job


async def move_job(store: Store, job_id: str, queue: str) -> None:
    """Moves a job to another queue, unless it runs or is not there. Raises `StoreError`."""
    await store.database.fetch(_move(), {"wanted_id": job_id, "new_queue": queue})


@cache
def _move() -> Select[Any]:
    # What runs is counted among those that its partition has in flight, and stays where it is.
    moved = (
        update(job)
        .where(
            job.c.ulid == bindparam("wanted_id", type_=Text),
            job.c.state != state_value("running"),
        )
        .values(queue=bindparam("new_queue", type_=Text))
        .returning(*(job.c[name] for name in LANE))
        .cte("moved")
    )
    return select(moved.c.queue).add_cte(*register(moved))
