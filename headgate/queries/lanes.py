"""The registry of lanes: whoever makes a job available registers its lane first.

A lane is (queue, sticky_worker, priority, partition_key, rate_class): what jobs must share so that
every policy of the gate has one verdict for all of them. The gate reads lanes instead of the
backlog, so a lane with work and no entry would never be served again. An entry too many only costs
one probe, until a prune removes it.
"""

from typing import Any, Final

from sqlalchemy import CTE, ColumnElement, FromClause, and_, collate, literal_column, select, true
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.literals import always
from headgate.queries.states import is_state
from headgate.tables import active_partition, inflight, lane_hash, new_lane

LANE: Final = ("queue", "sticky_worker", "priority", "partition_key", "rate_class")
"""The columns of a lane, in the order of its key."""


def is_lane(entry: FromClause, lane: Any) -> list[ColumnElement[bool]]:
    """Whether an entry is of this lane: columns of a selectable, or a mapping of values."""
    return [entry.c[name] == lane[name] for name in LANE]


def waits_in(waiting: FromClause, lane: Any) -> list[ColumnElement[bool]]:
    """Whether a job waits in this lane. To be ordered by `scheduled_at_ms, id`.

    Its hash is what the index has; the columns are compared in a form that invites no other index.
    """
    return [
        lane_hash(waiting.c) == lane_hash(lane),
        and_(*is_lane(waiting, lane)).is_(always()),
        is_state(waiting.c.state, "available"),
    ]


def register(source: FromClause, *, at_commit: bool = False) -> tuple[CTE, ...]:
    """The parts of a statement that register and pin the lanes of the rows of `source`.

    `source` has the columns of a lane and a row for each job that is, or is to become, available;
    repetitions do no harm. It is read once. Add the parts to the statement that writes the jobs:

        fresh = update(job).values(state=AVAILABLE)....returning(*job_lane).cte("fresh")
        select(...).select_from(fresh).add_cte(*register(fresh))

    An entry that exists is pinned by FOR KEY SHARE: nothing is written, and producers do not wait
    for each other. A missing one is inserted in the order of the key, with the row of its partition
    that ceilings lock. Of two producers that insert the same lane the second waits for the first
    and then pins its row; it sets the one column that is outside the key, as a change of the key
    would have to wait for every other producer of the lane.

    Why a prune cannot strand a job: it locks the entries it means to delete and skips those that
    are pinned or still uncommitted; then, with a new snapshot, it deletes the ones that have no
    available job. The pin lasts until the jobs are committed, so either the prune finds the pin, or
    its new snapshot finds the jobs, or this statement waits for the deletion, finds the entry gone
    and inserts it. All of it holds at READ COMMITTED only.

    `at_commit` leaves the insertion to the commit, for statements of a transaction that may stay
    open: until it ends nobody waits for it, and it has waited for nobody.
    """
    wanted = select(*(source.c[name] for name in LANE)).distinct().subquery("wanted")
    entry = (
        select(literal_column("true").label("held"))
        .select_from(active_partition)
        .where(*(active_partition.c[name] == wanted.c[name] for name in LANE))
        .with_for_update(read=True, key_share=True)
        .lateral("entry")
    )
    lane = (
        select(wanted, entry.c.held)
        .select_from(wanted.outerjoin(entry, true()))
        .cte("lane")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    missing = select(*(lane.c[name] for name in LANE)).where(lane.c.held.is_(None))
    if at_commit:
        return lane, insert(new_lane).from_select(list(LANE), missing).cte("announced_lane")
    added = insert(active_partition).from_select(list(LANE), missing.order_by(*_key_order(lane)))
    added_lane = (
        added.on_conflict_do_update(
            index_elements=list(LANE), set_={"registered": added.excluded.registered}
        )
        .returning(active_partition.c.queue, active_partition.c.partition_key)
        .cte("added_lane")
    )
    partition = select(added_lane.c.queue, added_lane.c.partition_key).distinct()
    added_partition = (
        insert(inflight)
        .from_select(
            ["queue", "partition_key"],
            partition.order_by(added_lane.c.queue, added_lane.c.partition_key),
        )
        .on_conflict_do_nothing()
        .cte("added_partition")
    )
    return lane, added_lane, added_partition


def _key_order(lane: CTE) -> list[ColumnElement[Any]]:
    # Every source must insert in one order, or two of them deadlock: values sent with a statement
    # would otherwise sort by the language of the database, rows of ours by byte.
    return [lane.c[name] if name == "priority" else collate(lane.c[name], "C") for name in LANE]
