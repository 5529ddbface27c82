"""What the gate would be with one guarantee left out, and the test that must notice.

A mutant is a fragment of our source with another in its place, put in as the module is imported;
no file changes. A fragment that is not there is an error, so the list keeps up with the code.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Final, NamedTuple

ENVIRONMENT: Final = "HEADGATE_TEST_MUTANT"
STRESS: Final = "tests/chaos/test_gate_under_stress.py"
RULES: Final = "tests/store/test_gate_rules.py"
GATE: Final = "tests/store/test_gate.py"
CEILINGS: Final = "tests/store/test_gate_ceilings.py"
LANES: Final = "tests/store/test_lanes.py"
FAIRNESS: Final = "tests/store/test_gate_fairness.py"
FLEET: Final = "tests/store/test_gate_fairness_fleet.py"
CLASSES: Final = "tests/store/test_gate_classes.py"
SATURATION: Final = "tests/store/test_gate_saturation.py"
CHARGES: Final = "tests/store/test_outcomes_charges.py"
TURNS: Final = "tests/store/test_gate_turns.py"
QUEUES: Final = "tests/store/test_gate_queues.py"
RESERVATION: Final = "tests/store/test_gate_reservation.py"
REPAIR: Final = "tests/store/test_lane_repair.py"
RECOUNT: Final = "tests/store/test_recount.py"


class Mutant(NamedTuple):
    """`caught_by` is the test module that fails with it."""

    module: str
    original: str
    mutated: str
    caught_by: str


_GATE: Final = "headgate.queries.gate."

MUTANTS: Final = {
    "a ceiling trusts an old count": Mutant(
        _GATE + "ceilings",
        "unmoved = and_(limited, locked.c.epoch == seen.c.epoch)",
        "unmoved = and_(limited, locked.c.epoch.is_not(None))",
        CEILINGS,
    ),
    "a claim raises no epoch": Mutant(
        _GATE + "full",
        "effects.append(ceilings.raise_epochs(queue, claimed))",
        "pass",
        CEILINGS,
    ),
    "a partition is not locked": Mutant(
        _GATE + "ceilings",
        "        .with_for_update(skip_locked=True, of=held)\n",
        "",
        CEILINGS,
    ),
    "a bucket is not locked": Mutant(
        _GATE + "buckets",
        "        .with_for_update(skip_locked=True, of=held)\n",
        "",
        CLASSES,
    ),
    "a claim raises no fence": Mutant(
        _GATE + "parts",
        "            fence=job.c.fence + number(1),\n",
        "",
        STRESS,
    ),
    "a prune deletes without a second look": Mutant(
        _GATE + "prune",
        "        .where(first_job(drained.c).scalar_subquery().is_(None))\n",
        "",
        STRESS,
    ),
    "a producer does not pin its lane": Mutant(
        "headgate.queries.lanes",
        "        .with_for_update(read=True, key_share=True)\n",
        "",
        LANES,
    ),
    "the short way in pins no lane": Mutant(
        "headgate.queries.enqueue_lane",
        "        .with_for_update(read=True, key_share=True)\n",
        "",
        LANES,
    ),
    "tokens are not spent": Mutant(
        _GATE + "full",
        "effects.append(buckets.spend(classes, claimed, now_ms))",
        "pass",
        RULES,
    ),
    "tokens are not added up": Mutant(
        _GATE + "draw",
        "or_(summed.c.level.is_(None), summed.c.total <= summed.c.level)",
        "or_(summed.c.level.is_(None), summed.c.level > number(0))",
        RULES,
    ),
    "a paused class is open": Mutant(
        _GATE + "buckets",
        "not_(",
        "or_(always(), ",
        RULES,
    ),
    "a heavy job blocks those behind it": Mutant(
        _GATE + "draw",
        "next_ = next_.where(or_(lane.c.level.is_(None), cost <= lane.c.level))",
        "pass",
        CLASSES,
    ),
    "a job above the burst costs its weight": Mutant(
        _GATE + "buckets",
        "select(func.least(job.c.weight, classes.c.burst))",
        "select(job.c.weight)",
        CLASSES,
    ),
    "the room of a partition is not shared": Mutant(
        _GATE + "draw",
        "or_(seated.c.room.is_(None), seated.c.seat <= seated.c.room)",
        "always()",
        RULES,
    ),
    "a shortcut sees no ceiling": Mutant(
        _GATE + "fast",
        "[lane.c.position, lane.c.place], ~exists(limited))",
        "[lane.c.position, lane.c.place])",
        GATE,
    ),
    "a shortcut sees no bucket": Mutant(
        _GATE + "fast",
        "*guards, ~any_bucket(lane), ~exists(shared)",
        "*guards, ~exists(shared)",
        GATE,
    ),
    "a shortcut gives a partition several shares": Mutant(
        _GATE + "fast",
        "*guards, ~any_bucket(lane), ~exists(shared)",
        "*guards, ~any_bucket(lane)",
        TURNS,
    ),
    "turns go on in a pause": Mutant(
        _GATE + "turns",
        "[~exists(paused), ~exists(limited), ",
        "[~exists(limited), ",
        TURNS,
    ),
    "turns see no ceiling": Mutant(
        _GATE + "turns",
        "[~exists(paused), ~exists(limited), ",
        "[~exists(paused), ",
        TURNS,
    ),
    "turns see no higher level": Mutant(
        _GATE + "turns",
        "highest == _LEVEL.priority, ",
        "",
        TURNS,
    ),
    "turns see no pinned jobs": Mutant(
        _GATE + "turns",
        "highest == _LEVEL.priority, ~exists(competing)]",
        "highest == _LEVEL.priority]",
        TURNS,
    ),
    "the only lane is served in a pause": Mutant(
        _GATE + "direct",
        '            ~exists(select(one).where(queue_state.c.queue == lane["queue"], '
        "queue_state.c.paused)),\n",
        "",
        GATE,
    ),
    "a pause is ignored": Mutant(
        _GATE + "walk",
        "        .where(state.c.paused.is_not(always()))\n",
        "",
        RULES,
    ),
    "the newest makes room": Mutant(
        _GATE + "displacement",
        ".order_by(running.c.claimed_at_ms, running.c.id)",
        ".order_by(running.c.claimed_at_ms.desc(), running.c.id.desc())",
        SATURATION,
    ),
    "what was displaced keeps its fence": Mutant(
        _GATE + "displacement",
        "            fence=job.c.fence + number(1),\n",
        "",
        SATURATION,
    ),
    "what was not used is not given back": Mutant(
        "headgate.queries.charges",
        "(job.c.rate_charge - source.c.actual_weight)",
        "(job.c.rate_charge - job.c.rate_charge)",
        CHARGES,
    ),
    "quarantined jobs start": Mutant(
        _GATE + "parts",
        "quarantined.is_(None)",
        "always()",
        RULES,
    ),
    "pins are ignored": Mutant(
        _GATE + "walk",
        "            entry.c.sticky_worker == sticky_worker,\n            entry.c.priority ==",
        "            entry.c.priority ==",
        RULES,
    ),
    "a lower priority overtakes": Mutant(
        _GATE + "draw",
        '        ).label("round"),\n    ).where(candidate.c.priority >= '
        "func.coalesce(lowest, candidate.c.priority))\n",
        '        ).label("round"),\n    )\n',
        FAIRNESS,
    ),
    "priority is no order": Mutant(
        _GATE + "draw",
        "[turns.c.priority.desc(), turns.c.round, turns.c.turn]",
        "[turns.c.round, turns.c.turn]",
        RULES,
    ),
    "partitions take no turns": Mutant(
        _GATE + "draw",
        "[turns.c.priority.desc(), turns.c.round, turns.c.turn]",
        "[turns.c.priority.desc(), turns.c.turn, turns.c.round]",
        FAIRNESS,
    ),
    "the rotation stands still": Mutant(
        "headgate.store.rotation",
        "        cursors[priority] = place\n",
        '        cursors[priority] = ("", "")\n',
        FAIRNESS,
    ),
    "all processes begin at the same place": Mutant(
        "headgate.store.gate",
        "                self._rotation.begin(*place)\n",
        "                pass\n",
        FLEET,
    ),
    "a new process begins the race anew": Mutant(
        "headgate.store.gate",
        '                self._rotation.restore(row["queue"], row["virtual_time"], '
        'row["rotation_cursor"])\n',
        "                pass\n",
        QUEUES,
    ),
    "what is below the highest levels is not reached": Mutant(
        "headgate.store.gate",
        "            if not report.deeper:\n",
        "            if True:\n",
        FAIRNESS,
    ),
    "a queue catches up what it missed": Mutant(
        "headgate.store.rotation",
        "self._frontier = max(self._frontier, *self._finish_tags.values(), 0.0)",
        "pass",
        QUEUES,
    ),
    "weights are ignored": Mutant(
        _GATE + "walk",
        "weight = cast(func.coalesce(state.c.weight, number(1)), Double)",
        "weight = cast(number(1), Double)",
        QUEUES,
    ),
    "a newcomer starts where nobody made room": Mutant(
        _GATE + "displacement",
        "or_(seats.c.displaces.is_not(always()), seats.c.seat <= seats.c.places)",
        "always()",
        SATURATION,
    ),
    "a newcomer displaces one too many": Mutant(
        _GATE + "displacement",
        "        .limit(crowd.c.excess)\n",
        "        .limit(crowd.c.excess + number(1))\n",
        SATURATION,
    ),
    "a job is refused where there is room": Mutant(
        _GATE + "refusal",
        "not_(ceilings.has_room(level, lane))",
        "level.c.ceiling.is_not(None)",
        SATURATION,
    ),
    "a job is refused that waits for tokens": Mutant(
        _GATE + "refusal",
        "        .where(buckets.affords(waiting, now_ms))\n",
        "",
        SATURATION,
    ),
    "what is discarded is cancelled": Mutant(
        _GATE + "refusal",
        'mode == word("discard")',
        'mode != word("discard")',
        SATURATION,
    ),
    "what runs never makes room": Mutant(
        _GATE + "full",
        'concurrency_limit.c.on_saturated == word("cancel_running")',
        'concurrency_limit.c.on_saturated == word("queue")',
        SATURATION,
    ),
    "a reservation binds nobody": Mutant(
        _GATE + "buckets",
        "        not_(is_passed_over(reserved, lane)),\n",
        "",
        RESERVATION,
    ),
    "a class never saves up": Mutant(
        "headgate.store.gate",
        'memory.policies["with_buckets"] and self._is_due(',
        "False and self._is_due(",
        RESERVATION,
    ),
    "a lower priority reserves": Mutant(
        _GATE + "reservation",
        "higher.c.priority > head.c.priority",
        "number(1) > number(2)",
        RESERVATION,
    ),
    "a reservation outlives its job": Mutant(
        _GATE + "buckets",
        "        still_available(reserved),\n",
        "",
        RESERVATION,
    ),
    "a reservation never lapses": Mutant(
        _GATE + "buckets",
        "        bucket.c.reserved_until_ms > now_ms,\n",
        "",
        RESERVATION,
    ),
    "the lane of a reserved job does not wait for it": Mutant(
        _GATE + "buckets",
        "func.coalesce(reserved.c.cost, number(1), type_=BigInteger) * bucket.c.window_ms",
        "number(1) * bucket.c.window_ms",
        RESERVATION,
    ),
    "a class saves up at once": Mutant(
        _GATE + "reservation",
        "            > scaled_cost // bucket.c.limit_per_window,\n",
        "            >= number(0),\n",
        RESERVATION,
    ),
    "a class saves up for what has no room": Mutant(
        _GATE + "reservation",
        "walk.lanes(level, ceilings.has_room, lambda",
        "walk.lanes(level, lambda",
        RESERVATION,
    ),
    "a repair goes by one column only": Mutant(
        "headgate.queries.lane_repair",
        "for length in reversed(range(len(order))):",
        "for length in reversed(range(len(order) - 1)):",
        REPAIR,
    ),
    "a recount counts in many snapshots": Mutant(
        "headgate.store.recount",
        "self._database.transaction(frozen=True)",
        "self._database.transaction()",
        RECOUNT,
    ),
    "two recounts add twice": Mutant(
        "headgate.store.recount",
        "            await guard.fetch(lock_recount())\n",
        "",
        RECOUNT,
    ),
}


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        # Past the cache of compiled modules, which neither knows a mutant nor must keep one.
        source = self.get_data(self.path).decode()
        assert self._mutant.original in source, f"stale mutant of {fullname}"
        mutated = source.replace(self._mutant.original, self._mutant.mutated)
        return self.source_to_code(mutated.encode(), self.path)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


def install() -> bool:
    """Puts the mutant that the environment names in its place; whether it names one.

    It must come before anything of ours is imported.
    """
    name = os.environ.get(ENVIRONMENT)
    if not name:
        return False
    loaded = [module for module in sys.modules if module.startswith("headgate")]
    assert not loaded, "too late for a mutant"
    sys.meta_path.insert(0, _Finder(MUTANTS[name]))
    return True
