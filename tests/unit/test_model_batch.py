"""What a batch adds to its envelopes: bounds of the whole, and no id or unique key twice."""

from typing import Any

import pytest

from headgate.model.envelope import Envelope, prepare
from headgate.model.errors import DuplicateJob, IdConflict, InvalidRequest

MEBIBYTE = 1_048_576


def refusal(*envelopes: Envelope) -> str:
    with pytest.raises(InvalidRequest) as refused:
        prepare(envelopes)
    return refused.value.message


def test_the_size_of_a_batch() -> None:
    assert prepare([]) == []
    assert len(prepare([Envelope(kind="mail")] * 1_000)) == 1_000
    text = "enqueue batch must contain at most 1000 jobs"
    assert refusal(*[Envelope(kind="no kind")] * 1_001) == text


def test_the_bytes_of_a_batch() -> None:
    full = [Envelope(kind="mail", payload=b"x" * MEBIBYTE)] * 16
    assert len(prepare(full)) == 16
    text = "enqueue batch data must total at most 16777216 bytes"
    assert refusal(*full, Envelope(kind="mail", payload=b"x")) == text
    assert refusal(*full, Envelope(kind="mail", unique_key=b"x")) == text
    assert refusal(*full, Envelope(kind="mail", headers={"é": ""})) == text


def test_a_repeated_id_conflicts() -> None:
    twice = [Envelope(kind="a", id="i"), Envelope(kind="b"), Envelope(kind="a", id="i")]
    with pytest.raises(IdConflict, match="id conflict: job i"):
        prepare(twice)
    assert refusal(*twice[:2], Envelope(kind="no kind", id="i")).startswith("invalid kind")


@pytest.mark.parametrize("amendment", [{"unique_replace": 1}, {"unique_debounce_ms": 1}])
def test_replacement_and_debounce_come_alone(amendment: dict[str, Any]) -> None:
    amending = Envelope(kind="mail", unique_key=b"k", **amendment)
    assert len(prepare([amending])) == 1
    text = "unique replacement and debounce require a single-job enqueue"
    assert refusal(amending, Envelope(kind="mail")) == text
    assert refusal(amending, amending) == text


def keyed(job_id: str, key: bytes | None = b"k", kind: str = "mail", **fields: Any) -> Envelope:
    return Envelope(id=job_id, kind=kind, unique_key=key, **fields)


def test_a_unique_key_twice_in_a_batch_names_the_first_holder() -> None:
    with pytest.raises(DuplicateJob) as duplicate:
        prepare([keyed("other", b"o"), keyed("first"), keyed("second"), keyed("third")])
    assert (duplicate.value.existing_id, duplicate.value.replaced) == ("first", False)


def test_a_unique_key_twice_in_a_batch_names_a_generated_id() -> None:
    with pytest.raises(DuplicateJob) as duplicate:
        prepare([keyed(""), keyed("")])
    assert duplicate.value.existing_id.startswith("hg")


def test_a_throttle_key_and_a_lifecycle_key_are_one_key() -> None:
    with pytest.raises(DuplicateJob):
        prepare([keyed("first", unique_window_ms=1_000), keyed("second")])


def test_equal_keys_in_different_scopes_are_different() -> None:
    everywhere: dict[str, Any] = {"unique_exclude_kind": True}
    batch = [keyed("a"), keyed("b", kind="post"), keyed("c", **everywhere), keyed("d", None)]
    assert [prepared.id for prepared in prepare([*batch, keyed("e", None)])] == list("abcde")
    with pytest.raises(DuplicateJob, match="existing job c"):
        prepare([*batch, keyed("f", kind="post", **everywhere)])


def test_a_refused_batch_tells_invalid_before_duplicate() -> None:
    assert refusal(keyed("a"), keyed("b"), Envelope(kind="")).startswith("invalid kind ``")
