"""What is to become of each node of a workflow, judged by the states of all of them."""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import Final

from headgate.model.errors import InvalidRequest
from headgate.model.lifecycle import State
from headgate.model.workflow import MISSING, PlannedNode, WorkflowPlan, WorkflowRecord

RETRIABLE: Final = frozenset({State.ARCHIVED, State.CANCELLED, State.UNDECODABLE})
"""The failures that an operator can take back; a quarantined node is released, a missing one is
gone."""

_FAILED: Final = RETRIABLE | {State.QUARANTINED, MISSING}


class Fate(Enum):
    """One of these holds for each node at any time."""

    DONE = "completed, now or when it was last there"
    FAILED = "ended without success by itself"
    DOOMED = "cannot run, as something before it failed; it is stopped already"
    STOP = "cannot run, as something before it failed; it is to be cancelled"
    WAITING = "something before it is not completed yet"
    PROMOTE = "everything before it is completed; it is to be made available"
    REVIVE = "stopped once, and everything before it is completed by now"
    LIVE = "on its way"


_OVER: Final = frozenset({Fate.DONE, Fate.FAILED, Fate.DOOMED, Fate.STOP})
_HOPELESS: Final = frozenset({Fate.FAILED, Fate.DOOMED, Fate.STOP})


def in_order(nodes: Iterable[PlannedNode]) -> list[PlannedNode]:
    """The nodes, each after those it depends on. Raises `InvalidRequest` for a circle."""
    by_name = {node.name: node for node in nodes}
    sorter = TopologicalSorter({name: node.deps for name, node in by_name.items()})
    try:
        return [by_name[name] for name in sorter.static_order() if name in by_name]
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise InvalidRequest(f"workflow contains a cycle: {circle}") from None


def judge(plan: WorkflowPlan, states: Mapping[str, str], record: WorkflowRecord) -> dict[str, Fate]:
    """The fate of each node by name, in the order of dependency.

    `states` are those of the jobs that exist, by job id. What failed reaches what depends on it,
    directly or not, and nothing else. Raises `InvalidRequest` for a plan with a circle.
    """
    fates: dict[str, Fate] = {}
    completed, stopped = set(record.completed), set(record.stopped)
    for node in in_order(plan.nodes):
        state = states.get(node.job_id, MISSING)
        before = [fates.get(name, Fate.FAILED) for name in node.deps]
        if state == State.COMPLETED or node.name in completed:
            fate = Fate.DONE
        elif state == State.CANCELLED and node.name in stopped:
            fate = _held(before, hopeless=Fate.DOOMED, free=Fate.REVIVE)
        elif state == State.PENDING:
            fate = _held(before, hopeless=Fate.STOP, free=Fate.PROMOTE)
        else:
            fate = Fate.FAILED if state in _FAILED else Fate.LIVE
        fates[node.name] = fate
    return fates


def is_live(fates: Iterable[Fate]) -> bool:
    """Whether anything may still happen by itself."""
    return any(fate not in _OVER for fate in fates)


def failures(fates: Mapping[str, Fate]) -> tuple[str, ...]:
    """The names of the nodes that failed by themselves."""
    return tuple(name for name, fate in fates.items() if fate is Fate.FAILED)


def _held(before: Collection[Fate], *, hopeless: Fate, free: Fate) -> Fate:
    if any(fate in _HOPELESS for fate in before):
        return hopeless
    return free if all(fate is Fate.DONE for fate in before) else Fate.WAITING
