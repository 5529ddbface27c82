"""What becomes of the nodes of a workflow, whatever graph they form and whichever of them fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.errors import InvalidRequest
from headgate.model.lifecycle import State
from headgate.model.workflow import PlannedNode, WorkflowPlan, WorkflowRecord
from headgate.model.workflow_fates import Fate, failures, in_order, is_live, judge


@st.composite
def plans(draw: st.DrawFn) -> WorkflowPlan:
    """A graph without circles, its nodes in any order."""
    count = draw(st.integers(1, 9))
    nodes = [
        PlannedNode(
            f"n{position}",
            f"w:n{position}",
            [f"n{before}" for before in range(position) if draw(st.booleans())],
        )
        for position in range(count)
    ]
    return WorkflowPlan("w", draw(st.permutations(nodes)))


class Run:
    """Carries out what is judged, as a store would, and runs the jobs one after the other."""

    def __init__(self, plan: WorkflowPlan) -> None:
        self.plan = plan
        self.record = WorkflowRecord()
        self.states: dict[str, str] = {node.job_id: State.PENDING for node in plan.nodes}
        self.ran: list[str] = []

    def advance(self) -> dict[str, Fate]:
        fates = judge(self.plan, self.states, self.record)
        for name, fate in fates.items():
            if fate in (Fate.PROMOTE, Fate.REVIVE):
                self.states[f"w:{name}"] = State.AVAILABLE
            if fate is Fate.REVIVE:
                self.record.stopped.remove(name)
            if fate is Fate.STOP:
                self.states[f"w:{name}"] = State.CANCELLED
                self.record.stopped.append(name)
        self.record.completed = [name for name, fate in fates.items() if fate is Fate.DONE]
        return fates

    def until_over(self, bad: dict[str, str], evicted: set[str]) -> dict[str, Fate]:
        """Runs to the end; `bad` has the last states of those that do not complete."""
        while is_live((fates := self.advance()).values()):
            free = [job for job, state in self.states.items() if state == State.AVAILABLE]
            assert free or self.advance() != fates, "it waits for nothing"
            for job_id in free[:1]:
                name = job_id.removeprefix("w:")
                self.ran.append(name)
                self.states[job_id] = bad.get(name, State.COMPLETED)
                if self.states[job_id] == "missing":
                    del self.states[job_id]
            self.advance()
            for name in evicted & set(self.record.completed):
                self.states.pop(f"w:{name}", None)
        return fates


ENDINGS = ("archived", "cancelled", "quarantined", "undecodable", "missing")


@given(plans(), st.data())
def test_a_failure_reaches_what_depends_on_it_and_nothing_else(
    plan: WorkflowPlan, data: st.DataObject
) -> None:
    names = [node.name for node in plan.nodes]
    bad = data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from(ENDINGS)))
    evicted = data.draw(st.sets(st.sampled_from(names)))
    run = Run(plan)
    fates = run.until_over(bad, evicted)
    doomed: set[str] = set()
    for node in in_order(plan.nodes):
        if any(dep in bad or dep in doomed for dep in node.deps):
            doomed.add(node.name)
    for node in plan.nodes:
        assert (node.name in run.ran) == (node.name not in doomed)
        for dep in node.deps:
            if node.name in run.ran:
                assert run.ran.index(dep) < run.ran.index(node.name)
    assert len(run.ran) == len(set(run.ran))
    assert set(failures(fates)) == {name for name in bad if name not in doomed}
    assert {name for name, fate in fates.items() if fate is Fate.DOOMED} == doomed


@given(plans(), st.data())
def test_what_failed_and_what_waited_for_it_run_after_a_retry_and_the_rest_does_not(
    plan: WorkflowPlan, data: st.DataObject
) -> None:
    names = [node.name for node in plan.nodes]
    bad = data.draw(st.dictionaries(st.sampled_from(names), st.just("archived"), min_size=1))
    run = Run(plan)
    failed = failures(run.until_over(bad, set()))
    before = list(run.ran)
    for name in failed:
        run.states[f"w:{name}"] = State.AVAILABLE
    bad = {name: state for name, state in bad.items() if name not in failed}
    while failed := failures(run.until_over(bad, set())):
        for name in failed:
            run.states[f"w:{name}"] = State.AVAILABLE
        bad = {name: state for name, state in bad.items() if name not in failed}
    assert set(judge(plan, run.states, run.record).values()) == {Fate.DONE}
    again = run.ran[len(before) :]
    completed_before = [name for name in before if name not in again]
    assert set(completed_before) | set(again) == set(names)


def test_a_job_that_an_operator_cancelled_has_failed_by_itself() -> None:
    plan = WorkflowPlan("w", [PlannedNode("a", "w:a"), PlannedNode("b", "w:b", ["a"])])
    fates = judge(plan, {"w:a": "running", "w:b": "cancelled"}, WorkflowRecord())
    assert fates == {"a": Fate.LIVE, "b": Fate.FAILED}


def test_a_circle_is_named() -> None:
    nodes = [PlannedNode("a", "1", ["b"]), PlannedNode("b", "2", ["a"])]
    with pytest.raises(
        InvalidRequest, match=r"workflow contains a cycle: (a -> b -> a|b -> a -> b)"
    ):
        in_order(nodes)
