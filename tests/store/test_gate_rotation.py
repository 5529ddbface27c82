"""The rotation as the process keeps it: cursors, the race of queues, what others take up."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.job import Claim
from headgate.store.rotation import Rotation

QUEUE = "q"


@dataclass
class Served:
    """What the rotation reads of a claim."""

    partition_key: str = ""
    priority: int = 0
    queue: str = QUEUE


def serve(rotation: Rotation, *keys: str, stops: Any = ()) -> None:
    rotation.advance(cast("list[Claim]", [Served(key) for key in keys]), stops)


def cursor(rotation: Rotation, priority: int = 0) -> tuple[str, str] | None:
    """Key and class of the lane behind which a level goes on."""
    bound = rotation.parameters([QUEUE])
    for index, known in enumerate(bound["cursor_priorities"]):
        if known == priority:
            return bound["cursor_partition_keys"][index], bound["cursor_rate_classes"][index]
    return None


def key(rotation: Rotation) -> str | None:
    place = cursor(rotation)
    return place and place[0]


def test_the_cursor_follows_the_last_in_turn() -> None:
    rotation = Rotation()
    serve(rotation, "a", "b", "c")
    assert key(rotation) == "c"
    serve(rotation, "d", "a", "b")
    assert key(rotation) == "b"


def test_whoever_got_a_job_less_comes_first_next_time() -> None:
    rotation = Rotation()
    serve(rotation, "a", "b", "c", "a")
    assert key(rotation) == "a"


def test_a_partition_is_behind_the_cursor_with_all_its_classes() -> None:
    rotation = Rotation()
    serve(rotation, "a")
    place = cursor(rotation)
    assert place is not None
    assert place > ("a", "every class")
    assert place < ("a\0", "")


def test_a_walk_that_stopped_within_a_partition_goes_on_there() -> None:
    rotation = Rotation()
    stop = (QUEUE, 0, "a", "c5")
    serve(rotation, "a", stops=[stop])
    assert cursor(rotation) == ("a", "c5")
    serve(rotation, "a", "b", stops=[(QUEUE, 0, "d", "")])
    assert key(rotation) == "b"


def test_of_two_stops_the_nearer_counts() -> None:
    rotation = Rotation()
    serve(rotation, "m")
    rotation.skip([(QUEUE, 0, "c", ""), (QUEUE, 0, "x", "")])
    assert cursor(rotation) == ("x", "")


def test_old_levels_are_forgotten() -> None:
    rotation = Rotation()
    for priority in range(1_000):
        rotation.advance(cast("list[Claim]", [Served("a", priority)]), ())
    assert len(rotation.parameters([QUEUE])["cursor_priorities"]) == 64
    assert cursor(rotation, 999) is not None


def test_another_process_takes_up_the_rotation() -> None:
    first, second = Rotation(), Rotation()
    assert second.unknown([QUEUE]) == [QUEUE]
    serve(first, "é")
    lag, record = first.record(QUEUE)
    second.restore(QUEUE, lag, record)
    assert cursor(second) == cursor(first)
    assert second.unknown([QUEUE]) == []


def test_an_empty_record_restores_nothing() -> None:
    rotation = Rotation()
    rotation.restore(QUEUE)
    assert cursor(rotation) is None


@given(
    weights=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    capacities=st.lists(st.integers(1, 30), min_size=20, max_size=40),
    idle_until=st.integers(0, 20),
)
def test_queues_with_work_get_their_share(
    weights: list[int], capacities: list[int], idle_until: int
) -> None:
    """The statements give the next job to the queue that would finish first; so does this test."""
    rotation = Rotation()
    names = [f"q{number}" for number in range(len(weights))]
    weight_of = dict(zip(names, map(float, weights), strict=True))
    got = dict.fromkeys(names, 0)
    for call, capacity in enumerate(capacities):
        # The last queue comes late, and must get no more for it.
        ready = names if call >= idle_until else names[:-1] or names
        if call == idle_until:
            got = dict.fromkeys(names, 0)
        bound = rotation.parameters(names)
        start = {
            name: max(tag, bound["frontier"] - 1 / weight_of[name])
            for name, tag in zip(names, bound["finish_tags"], strict=True)
        }
        taken = dict.fromkeys(ready, 0)
        for _ in range(capacity):
            name = min(ready, key=lambda q: start[q] + (taken[q] + 1) / weight_of[q])
            taken[name] += 1
        rotation.charge({name: jobs for name, jobs in taken.items() if jobs}, weight_of)
        for name, jobs in taken.items():
            got[name] += jobs
    if len(capacities) > idle_until:
        total = sum(got.values())
        for name in names:
            fair = total * weight_of[name] / sum(weights)
            assert got[name] == pytest.approx(fair, abs=2 + weight_of[name] / min(weights))
