"""What an enqueue asks when it loses a race, played without a database."""

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import Backpressure, DuplicateJob, FingerprintQuarantined, IdConflict
from headgate.model.identity import effective_unique_key
from headgate.model.job import RequestKey
from headgate.queries.enqueue_obstacles import (
    existing_jobs,
    find_request,
    key_holders,
    lock_limits,
    quarantined_fingerprints,
    unfinished_jobs,
)
from headgate.store.enqueueing import Batch, Written, enqueue

Rows = Sequence[dict[str, Any]]

REQUEST = RequestKey("mail", "key")


def known(envelope: Envelope) -> Rows:
    """The row of this envelope, as a concurrent enqueue of it would have written it."""
    [prepared] = Batch.of([envelope]).envelopes
    row = {"kind": prepared.kind, "fingerprint": prepared.fingerprint, "queue": prepared.queue}
    return [{"ulid": prepared.id, **row}]


def play(
    envelope: Envelope, answers: Sequence[tuple[Any, Rows]], request: RequestKey | None = None
) -> Written:
    """Runs an enqueue, expecting these statements in this order and answering them."""
    conversation = enqueue(Batch.of([envelope]), request)
    statement, _ = next(conversation)
    for expected, rows in answers:
        assert statement is expected
        try:
            statement, _ = conversation.send(rows)
        except StopIteration as end:
            answer: Written = end.value
            return answer
    pytest.fail(f"asked for more: {statement}")


HELD: dict[str, tuple[Envelope, list[tuple[Any, Rows]], type[Exception]]] = {
    "quarantine": (
        Envelope(kind="mail", id="one", fingerprint="bad"),
        [(quarantined_fingerprints(), [{"fingerprint": "bad"}])],
        FingerprintQuarantined,
    ),
    "limit": (
        Envelope(kind="mail", id="one"),
        [
            (quarantined_fingerprints(), []),
            (lock_limits(), [{"queue": "default", "max_unfinished_jobs": 1}]),
            (unfinished_jobs(), [{"queue": "default", "current": 1}]),
        ],
        Backpressure,
    ),
    "key": (
        Envelope(kind="mail", id="one", unique_key=b"k", unique_debounce_ms=5),
        [
            (quarantined_fingerprints(), []),
            (lock_limits(), []),
            (
                key_holders(),
                [
                    {
                        "id": 1,
                        "ulid": "one",
                        "unique_key": effective_unique_key("mail", b"k", False),
                        "lapsed": False,
                    }
                ],
            ),
        ],
        DuplicateJob,
    ),
}


@pytest.mark.parametrize("case", HELD)
def test_a_replay_that_came_too_late_to_be_seen_is_no_refusal(case: str) -> None:
    envelope, refusal, _ = HELD[case]
    unseen: list[tuple[Any, Rows]] = [(existing_jobs(), [])]
    seen: list[tuple[Any, Rows]] = [(existing_jobs(), known(envelope))]
    answer = play(envelope, unseen + refusal + seen + seen)
    assert [job.id for job in answer.jobs] == ["one"]
    assert answer.queues == frozenset()


@pytest.mark.parametrize("case", HELD)
def test_another_job_that_took_the_id_meanwhile_is_a_conflict(case: str) -> None:
    envelope, refusal, _ = HELD[case]
    other: Rows = [{"ulid": "one", "kind": "other", "fingerprint": "f", "queue": "default"}]
    unseen: list[tuple[Any, Rows]] = [(existing_jobs(), [])]
    seen: list[tuple[Any, Rows]] = [(existing_jobs(), other)]
    with pytest.raises(IdConflict):
        play(envelope, unseen + refusal + seen + seen)


@pytest.mark.parametrize("case", HELD)
def test_a_refusal_stands_when_nobody_came_first(case: str) -> None:
    envelope, refusal, error = HELD[case]
    unseen: list[tuple[Any, Rows]] = [(existing_jobs(), [])]
    with pytest.raises(error):
        play(envelope, unseen + refusal + unseen)


def test_the_same_request_that_came_first_is_found() -> None:
    envelope, refusal, _ = HELD["limit"]
    envelope = Envelope(kind=envelope.kind)
    answers: list[tuple[Any, Rows]] = [(find_request(), []), (existing_jobs(), [])]
    found: list[tuple[Any, Rows]] = [(find_request(), [{"job_id": "first"}])]
    answer = play(envelope, answers + refusal + found + found, REQUEST)
    assert [(job.id, job.replayed) for job in answer.jobs] == [("first", True)]
    assert answer.queues == frozenset()
