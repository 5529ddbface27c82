"""Bringing a job into any state, on the ways that the store itself offers."""

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import DELETED, LIVE, TERMINAL, Destination, Outcome, State
from headgate.store.store import Store
from tests.store.rows import HOUR_MS, Observer, start, state_of

FAR = 4_000_000_000_000

LIVE_STATES = [state for state in State if state in LIVE]
TERMINAL_STATES = [state for state in State if state in TERMINAL]

_OUTCOMES: dict[Destination, Outcome] = {
    State.RETRYABLE: Outcome.RETRY,
    State.COMPLETED: Outcome.SUCCESS,
    State.ARCHIVED: Outcome.SKIP,
    State.UNDECODABLE: Outcome.UNDECODABLE,
    DELETED: Outcome.REVOKE,
}


async def bring(store: Store, observer: Observer, envelope: Envelope, state: Destination) -> str:
    """Enqueues the job and leads it to `state`; its id. A completed one is kept for an hour."""
    envelope.pending = state is State.PENDING
    if state is State.SCHEDULED and not envelope.unique_debounce_ms:
        envelope.scheduled_at_ms = FAR
    if state is State.COMPLETED:
        envelope.retention_ms = HOUR_MS
    [job] = await store.producer.enqueue([envelope])
    if state is State.CANCELLED:
        await observer.execute(
            "UPDATE headgate_job SET state = 'cancelled', finalized_at_ms = 1 WHERE ulid = $1",
            job.id,
        )
    elif state is State.QUARANTINED:
        await _crash(store, observer, job.id)
    elif state is State.RUNNING or state in _OUTCOMES:
        [lease] = await start(observer, [job.id])
        if state in _OUTCOMES:
            report = Acknowledgement(lease=lease, outcome=_OUTCOMES[state])
            await store.leases.acknowledge([report])
    reached = await state_of(observer, job.id)
    assert reached == (None if state == DELETED else state)
    return job.id


async def _crash(store: Store, observer: Observer, job_id: str) -> None:
    """The last crash that a job is allowed. Its fingerprint is let go of afterwards."""
    [lease] = await start(observer, [job_id])
    await observer.execute(
        "UPDATE headgate_job SET crash_attempt = 2, lease_expires_at_ms = 0 WHERE ulid = $1",
        lease.job_id,
    )
    await store.upkeep.reclaim_expired(1)
    await observer.execute("DELETE FROM headgate_quarantine")
