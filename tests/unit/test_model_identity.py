"""Ids that only grow, fingerprints with their published values, keys in their scope."""

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model import identity
from headgate.model.identity import effective_unique_key, fingerprint, new_job_id


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        ("email:welcome", b"", "bed0eecb39af02d79d5cdc8026a9b817"),
        ("", b"", "af5570f5a1810b7af78caf4bc70a660f"),
        ("a", b"bc", "47ea6f805c5b663e33012cd34184e139"),
        ("ab", b"c", "60014a36d7b05b0730e42a8b96faa1ff"),
        ("charge", b"\x00\x01\x02", "295e280cea51e7f3978bc3195d8fd4ae"),
        ("résumé:parse", b"{}", "a9b8c5d03aa1a0710129091fa3dc0a1d"),
        ("mail:welcome", b"{}", "8eb06d98714c54e1431eab8223ee5e45"),
    ],
)
def test_fingerprint_vectors(kind: str, payload: bytes, expected: str) -> None:
    assert fingerprint(kind, payload) == expected


def test_the_form_of_a_generated_id() -> None:
    before = time.time_ns() // 1_000_000
    job_id = new_job_id()
    assert re.fullmatch(r"hg[0-9a-f]{21}", job_id)
    assert abs(int(job_id[2:14], 16) - before) < 60_000


def test_ids_grow_within_a_millisecond() -> None:
    ids = [new_job_id() for _ in range(50_000)]
    assert all(earlier < later for earlier, later in pairwise(ids))
    assert len({job_id[2:14] for job_id in ids}) < len(ids) / 10


def test_ids_grow_while_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    start = time.time_ns()
    clock = iter([start, start - 3_600_000_000_000, start - 1, start + 5_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(clock))
    ids = [new_job_id() for _ in range(4)]
    assert ids == sorted(set(ids))


def test_any_number_of_ids_can_be_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_RANDOM_BITS", 16)
    source = identity._IdSource()
    taken = [*source.take(30_000), *source.take(0), *source.take(30_000)]
    assert len(set(taken)) == 60_000
    assert taken == sorted(taken)


def test_ids_grow_when_the_numbers_of_a_millisecond_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: stopped)
    source = identity._IdSource()
    [first] = source.take(1)
    source._number = 2**36 - 1
    [second] = source.take(1)
    assert first < second
    assert len(second) == len(first)


@pytest.fixture
def threads_that_interrupt_each_other() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("threads_that_interrupt_each_other")
def test_threads_get_different_growing_ids() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(mine: list[str]) -> None:
        start.wait()
        mine.extend(new_job_id() for _ in range(5_000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({job_id for mine in made for job_id in mine}) == 40_000


def _ids_of_a_forked_child(count: int) -> Iterator[str]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os.write(writing, ",".join(new_job_id() for _ in range(count)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    yield from text.split(",")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside threads is the point
def test_a_forked_child_takes_other_ids_than_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = time.time_ns() + 10_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: stopped)
    last_before = new_job_id()
    children = [*_ids_of_a_forked_child(1_000), *_ids_of_a_forked_child(1_000)]
    own = [new_job_id() for _ in range(1_000)]
    assert len({*children, *own, last_before}) == 3_001
    assert last_before < min(*children, *own)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside threads is the point
def test_a_child_forked_while_the_lock_is_held_still_gets_ids() -> None:
    with identity._source._lock:
        assert len(list(_ids_of_a_forked_child(3))) == 3


def test_effective_unique_key() -> None:
    assert effective_unique_key("mail", None, False) is None
    assert effective_unique_key("mail", b"k", False) == b"\x01K\x00\x00\x00\x04mailk"
    assert effective_unique_key("mail", b"k", True) == b"\x01Gk"
    assert effective_unique_key("é", b"", False) == b"\x01K\x00\x00\x00\x02\xc3\xa9"
    assert effective_unique_key("mail", b"", True) == b"\x01G"


scoped_keys = st.tuples(st.text(max_size=4), st.binary(max_size=6), st.booleans())


@given(scoped_keys, scoped_keys)
def test_keys_of_different_scopes_never_meet(
    left: tuple[str, bytes, bool], right: tuple[str, bytes, bool]
) -> None:
    def scope(kind: str, key: bytes, exclude_kind: bool) -> tuple[str | None, bytes]:
        return (None if exclude_kind else kind, key)

    same = effective_unique_key(*left) == effective_unique_key(*right)
    assert same == (scope(*left) == scope(*right))
