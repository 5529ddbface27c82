"""Time that passes when a test says so.

Every instant is judged by the clock of the database, which no test can turn. Instead everything
that is stored is made older: to the clock that is the same.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import BigInteger, Table, Update, bindparam, case, update

from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_MS
from headgate.queries.literals import number
from headgate.store.database import Session
from headgate.store.store import Store
from headgate.tables import (
    duty,
    effect,
    enqueue_key,
    idempotency,
    job,
    operation,
    quarantine,
    rate_bucket,
    worker,
)

# A zero stands for no instant; minutes and ticks of schedules are names rather than instants.
_INSTANTS: Final[tuple[tuple[Table, tuple[str, ...]], ...]] = (
    (
        job,
        (
            "enqueued_at_ms",
            "scheduled_at_ms",
            "deadline_ms",
            "claimed_at_ms",
            "lease_expires_at_ms",
            "finalized_at_ms",
            "unique_expires_at_ms",
            "output_updated_at_ms",
            "progress_updated_at_ms",
        ),
    ),
    (rate_bucket, ("refilled_at_ms", "reserved_until_ms")),
    (quarantine, ("quarantined_at_ms",)),
    (duty, ("expires_at_ms", "succeeded_at_ms")),
    (worker, ("started_at_ms", "heartbeat_at_ms")),
    (effect, ("at_ms",)),
    (operation, ("created_at_ms", "finished_at_ms")),
    (enqueue_key, ("recorded_at_ms",)),
    (idempotency, ("recorded_at_ms",)),
)


async def advance_time(store: Store, by_ms: int) -> None:
    """Lets `by_ms` milliseconds pass for jobs, leases, rate classes, quarantine, workers and keys.

    What has come due is not promoted by that: `headgate.testing.drain` does it, as do duties. Two
    things stay as they are: schedules, whose ticks are instants of the calendar (run one with
    `store.schedules.run_now`), and the counters per minute. Every row is touched, so this
    is for the database of a test alone. Raises `InvalidRequest` for a negative time, `StoreError`.
    """
    if not 0 <= by_ms <= MAX_MS:
        raise InvalidRequest(f"by_ms must be between 0 and {MAX_MS}")

    async def work(session: Session) -> None:
        for statement in _statements():
            await session.fetch(statement, {"by_ms": by_ms})

    await store.database.transact(work)


@cache
def _statements() -> tuple[Update, ...]:
    by_ms: Any = bindparam("by_ms", type_=BigInteger)
    return tuple(
        update(table).values(
            {
                name: case((table.c[name] > number(0), table.c[name] - by_ms), else_=table.c[name])
                for name in names
            }
        )
        for table, names in _INSTANTS
    )
