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
    func,
    not_,
    null,
    select,
    union_all,
)

from headgate.queries.gate import buckets, ceilings, displacement, draw, walk
from headgate.queries.gate.parts import CLAIM_COLUMNS, QUEUES, claim, clock, read
from headgate.queries.gate.report import Steps, report
from headgate.queries.literals import number, word
from headgate.queries.shapes import materialized
from headgate.tables import concurrency_limit, job


@cache
def full(
    *, with_ceilings: bool, with_buckets: bool, with_displacement: bool = False, brief: bool = False
) -> Executable:
    """Claims up to `capacity` jobs: the columns of a claim and `report`, which is null but for one
    more row at the end that has nothing else.

    A `brief` one reports no reasons, which is cheaper, and good for a call that will be filled.
    `with_displacement`, which means nothing without ceilings, newcomers may cancel what runs.
    """
    with_displacement = with_displacement and with_ceilings
    now_ms = read(clock(), "now_ms")
    queue = materialized(_polled(with_ceilings, with_displacement), "polled")
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
    if with_displacement:
        crowd = materialized(displacement.crowded(chosen, open_lane), "crowded")
        displaced = displacement.displace(crowd, now_ms)
        chosen = materialized(displacement.seated(chosen, crowd, displaced), "seated")

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
        ceilings=_modes(),
        buckets=buckets.any_bucket(lane),
        brief=brief,
    )
    columns = [claimed.c[column.name] for column in CLAIM_COLUMNS]
    return union_all(
        select(*columns, null().label("report")), select(*(null() for _ in columns), told)
    ).add_cte(*effects)


def _polled(with_ceilings: bool, with_displacement: bool) -> Select[Any]:
    limits: dict[str, ColumnElement[Any]] = {}
    if with_ceilings:
        limits["ceiling"] = concurrency_limit.c.max_concurrent
    if with_displacement:
        limits["displaces"] = concurrency_limit.c.on_saturated == word("cancel_running")
    found = walk.polled(**limits)
    return found if with_ceilings else found.where(_modes().is_(None))


def _lanes(
    level: CTE, now_ms: ColumnElement[int], with_ceilings: bool, with_buckets: bool
) -> Select[Any]:
    conditions: list[walk.LaneCondition] = []
    if with_ceilings:
        conditions.append(ceilings.has_room)
    if with_buckets:
        conditions.append(lambda _, lane: buckets.is_open(lane, now_ms))
    return walk.lanes(level, *conditions)


def _modes() -> ColumnElement[Any]:
    """What the ceilings on these queues do with what finds no room; NULL without a ceiling."""
    limit = concurrency_limit
    return (
        select(func.array_agg(limit.c.on_saturated))
        .where(limit.c.queue == any_(QUEUES))
        .scalar_subquery()
    )
