"""Quarantine: which fingerprints are held back, parking what waits with them, letting them go.

Parking a job takes a share of the entry of its fingerprint, which a release deletes. So a sweep
parks nothing of which the release does not know: either it finds the entry gone, or the release
waits for it and then finds the jobs.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Select,
    Text,
    any_,
    bindparam,
    case,
    delete,
    func,
    select,
    tuple_,
    union_all,
    update,
)

from headgate.model.lifecycle import State
from headgate.queries.clock import now_ms
from headgate.queries.literals import always, number, word
from headgate.queries.shapes import (
    materialized,
    named_rows,
    not_passed_over,
    page_offset,
    page_size,
)
from headgate.queries.states import is_state, state_value
from headgate.queries.streams import leading
from headgate.tables import job, quarantine

FINGERPRINTS: Final = 1_000
"""How many entries one sweep looks at; the next goes on behind them."""

WAITING: Final = (State.SCHEDULED, State.AVAILABLE, State.RETRYABLE)
"""The states from which a job is parked. Pending ones are not in anybody's way."""

_FINGERPRINT: Final[Any] = bindparam("wanted_fingerprint", type_=Text)


@cache
def quarantined_fingerprints() -> Select[Any]:
    """A page of the entries, newest first: the fields of `QuarantinedFingerprint`."""
    return (
        select(
            quarantine.c.fingerprint,
            quarantine.c.kind,
            quarantine.c.crash_count,
            quarantine.c.quarantined_at_ms,
            func.coalesce(quarantine.c.reason, word("")).label("reason"),
        )
        .order_by(quarantine.c.quarantined_at_ms.desc(), quarantine.c.fingerprint)
        .limit(page_size())
        .offset(page_offset())
    )


@cache
def waiting_jobs() -> Executable:
    """Up to `batch_size` waiting jobs of the entries behind `after_fingerprint`, but for those of
    `passed_over`.

    One row (row_ids, resume_after). `resume_after` is the last entry that was looked at, or NULL
    when that was the last there is; it tells nothing when the batch is full.
    """
    after = bindparam("after_fingerprint", type_=Text)
    entry = materialized(
        select(quarantine.c.fingerprint)
        .where(quarantine.c.fingerprint > after)
        .order_by(quarantine.c.fingerprint)
        .limit(number(FINGERPRINTS)),
        "entry",
    )
    size: ColumnElement[int] = bindparam("batch_size", type_=BigInteger)
    arms = [
        select(
            select(job.c.id)
            .where(
                *leading("fingerprint", entry.c.fingerprint),
                *_behind(state, number(0)),
                not_passed_over(),
            )
            .order_by(job.c.state, job.c.id)
            .limit(size)
            .correlate(entry)
            .subquery(f"of_{state}")
        )
        for state in WAITING
    ]
    sibling = union_all(*arms).lateral("sibling")
    candidate = select(sibling.c.id).select_from(entry.join(sibling, always())).limit(size)
    looked_at = select(func.count()).select_from(entry).scalar_subquery()
    last = select(func.max(entry.c.fingerprint)).scalar_subquery()
    return select(
        func.array(candidate.scalar_subquery()).label("row_ids"),
        case((looked_at == number(FINGERPRINTS), last)).label("resume_after"),
    )


@cache
def park_waiting() -> Executable:
    """Quarantines those jobs of `row_id_array` that still wait and whose fingerprint is still held
    back: a row (id) for each.
    """
    of_batch = select(job.c.fingerprint).where(named_rows()).distinct()
    held = materialized(
        select(quarantine.c.fingerprint)
        .where(quarantine.c.fingerprint == any_(func.array(of_batch.scalar_subquery())))
        .with_for_update(read=True, skip_locked=True),
        "held",
    )
    still = func.array(select(held.c.fingerprint).scalar_subquery())
    locked = materialized(
        select(job.c.id)
        .where(named_rows(), is_state(job.c.state, *WAITING), job.c.fingerprint == any_(still))
        .order_by(job.c.id)
        .with_for_update(skip_locked=True),
        "locked",
    )
    return (
        update(job)
        .where(job.c.id == any_(func.array(select(locked.c.id).scalar_subquery())))
        .values(state=state_value("quarantined"), finalized_at_ms=now_ms())
        .returning(job.c.id)
    )


@cache
def release_entry() -> Executable:
    """Takes the entry `wanted_fingerprint` away; a row (fingerprint) when there was one."""
    return (
        delete(quarantine)
        .where(quarantine.c.fingerprint == _FINGERPRINT)
        .returning(quarantine.c.fingerprint)
    )


@cache
def lock_parked() -> Select[Any]:
    """Locks up to `batch_size` quarantined jobs of `wanted_fingerprint` behind `after_id`: (id)."""
    return (
        select(job.c.id)
        .where(
            *leading("fingerprint", _FINGERPRINT),
            *_behind(State.QUARANTINED, bindparam("after_id", type_=BigInteger)),
        )
        .order_by(job.c.state, job.c.id)
        .limit(bindparam("batch_size", type_=BigInteger))
        .with_for_update()
    )


def _behind(state: State, after_id: ColumnElement[int]) -> tuple[ColumnElement[bool], ...]:
    """The stream of one state of a fingerprint, in the only form that pins its index."""
    value = state_value(state)
    return tuple_(job.c.state, job.c.id) > tuple_(value, after_id), job.c.state <= value
