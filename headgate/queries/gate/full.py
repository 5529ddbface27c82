"""The complete gate: every policy, in one statement that waits for nobody.

The steps are those of the package's map. A variant without ceilings or buckets leaves their steps
out; it claims nothing where one of them applies, and says so in its report.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    Select,
    any_,
    exists,
    not_,
    null,
    select,
    union_all,
)

from headgate.queries.gate import buckets, ceilings, draw, walk
from headgate.queries.gate.parts import CLAIM_COLUMNS, QUEUES, claim, clock, materialized, read
from headgate.queries.gate.report import Steps, report
from headgate.queries.literals import number
from headgate.tables import concurrency_limit, job


@cache
def full(*, with_ceilings: bool, with_buckets: bool) -> Executable:
    """Claims up to `capacity` jobs: the columns of a claim and `report`, which is null but for one
    more row at the end that has nothing else.
    """
    now_ms = read(clock(), "now_ms")
    queue = materialized(_polled(with_ceilings), "polled")
    level = materialized(walk.levels(queue), "level")
    lane = materialized(_lanes(level, now_ms, with_ceilings, with_buckets), "lane")

    classes = materialized(buckets.locked_classes(lane, now_ms), "class") if with_buckets else None
    roomy = materialized(ceilings.with_room(lane), "roomy") if with_ceilings else None
    guards = () if with_buckets else (not_(buckets.any_bucket(lane)),)
    open_lane = materialized(
        draw.open_lanes(lane if roomy is None else roomy, classes, *guards), "open_lane"
    )
    candidate = materialized(draw.candidates(open_lane), "candidate")
    cut = materialized(draw.cut_levels(candidate), "cut")
    ranked = draw.ranked(candidate, cut).subquery("ranked")
    chosen = materialized(draw.lock_first(ranked), "chosen")

    charge = number(0) if classes is None else buckets.charge(classes)
    claiming = claim(select(chosen.c.address).scalar_subquery(), now_ms, charge)
    claimed = claiming.returning(job.c.rate_charge).cte("claimed")
    effects: list[CTE] = []
    if classes is not None:
        effects.append(buckets.spend(classes, claimed, now_ms))
    if roomy is not None:
        effects.append(ceilings.raise_epochs(queue, claimed))

    told = report(
        Steps(queue, level, lane, open_lane, candidate, cut, chosen, classes, roomy),
        ceilings=_limited(),
        buckets=buckets.any_bucket(lane),
    )
    columns = [claimed.c[column.name] for column in CLAIM_COLUMNS]
    return union_all(
        select(*columns, null().label("report")), select(*(null() for _ in columns), told)
    ).add_cte(*effects)


def _polled(with_ceilings: bool) -> Select[Any]:
    found = walk.polled(ceilings=with_ceilings)
    return found if with_ceilings else found.where(not_(_limited()))


def _lanes(
    level: CTE, now_ms: ColumnElement[int], with_ceilings: bool, with_buckets: bool
) -> Select[Any]:
    conditions: list[walk.LaneCondition] = []
    if with_ceilings:
        conditions.append(lambda level, lane: ceilings.has_room(lane, level.c.ceiling))
    if with_buckets:
        conditions.append(lambda _, lane: buckets.is_open(lane.c.rate_class, now_ms))
    return walk.lanes(level, *conditions)


def _limited() -> ColumnElement[bool]:
    """A ceiling lies on one of the queues."""
    return exists(select(number(1)).where(concurrency_limit.c.queue == any_(QUEUES)))
