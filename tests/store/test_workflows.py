"""Workflows in the store: who goes when, what is remembered, and what an operator may do."""

import asyncio
from typing import Any

import pytest

from headgate.client.workflow import Workflow
from headgate.model.envelope import Envelope
from headgate.model.errors import Conflict, DuplicateJob, InvalidRequest, NotFound
from headgate.model.workflow import WorkflowNode, WorkflowSnapshot
from headgate.queries.workflows import node_jobs, read_coordinator
from headgate.store.store import Store
from tests.store.plans import MODES, PlanMode, pages_read, plan_of, scans_of
from tests.store.rows import Observer, assert_lanes, state_of

COORDINATOR = "w:coordinator"


async def begin(store: Store, graph: dict[str, list[str]], **fields: Any) -> None:
    """Enqueues a workflow `w` of nodes that wait for others."""
    workflow = Workflow("w")
    for name, after in graph.items():
        workflow.add(Envelope(kind="step", **fields), name=name, after=after)
    await store.producer.enqueue(workflow.jobs())


async def put(observer: Observer, state: str, *names: str) -> None:
    await observer.execute(
        "UPDATE headgate_job SET state = $2::text::headgate_state, finalized_at_ms = 1"
        " WHERE ulid = ANY($1)",
        [f"w:{name}" for name in names],
        state,
    )


async def states(observer: Observer, *names: str) -> list[str | None]:
    return [await state_of(observer, f"w:{name}") for name in names]


async def seen(store: Store) -> WorkflowSnapshot:
    found = await store.workflows.workflow("w")
    assert found is not None
    return found


def nodes_of(found: WorkflowSnapshot) -> dict[str, WorkflowNode]:
    return {node.name: node for node in found.nodes}


DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


async def test_each_goes_once_all_before_it_are_completed(store: Store, observer: Observer) -> None:
    await begin(store, DIAMOND)
    assert await states(observer, *DIAMOND) == ["pending"] * 4
    assert (await store.workflows.advance(COORDINATOR)).live
    assert await states(observer, *DIAMOND) == ["available", "pending", "pending", "pending"]
    await assert_lanes(observer)
    await put(observer, "completed", "a")
    await store.workflows.advance(COORDINATOR)
    assert await states(observer, "b", "c", "d") == ["available", "available", "pending"]
    await put(observer, "completed", "b")
    await store.workflows.advance(COORDINATOR)
    assert await states(observer, "d") == ["pending"]
    await put(observer, "completed", "c")
    assert (await store.workflows.advance(COORDINATOR)).live
    await put(observer, "completed", "d")
    over = await store.workflows.advance(COORDINATOR)
    assert (over.live, over.failed) == (False, ())


async def test_an_available_node_wakes_its_queue(store: Store, observer: Observer) -> None:
    await begin(store, {"a": []}, queue="q")
    with store.listener.subscribe(["q"]) as subscription:
        await subscription.wait(5_000)
        await store.workflows.advance(COORDINATOR)
        assert await subscription.wait(5_000)


async def test_a_completed_node_that_was_evicted_stays_completed(
    store: Store, observer: Observer
) -> None:
    await begin(store, {"a": [], "b": ["a"]})
    await put(observer, "completed", "a")
    await store.workflows.advance(COORDINATOR)
    await observer.execute("DELETE FROM headgate_job WHERE ulid = 'w:a'")
    await put(observer, "completed", "b")
    over = await store.workflows.advance(COORDINATOR)
    assert (over.live, over.failed) == (False, ())
    assert nodes_of(await seen(store))["a"].state == "completed"


@pytest.mark.parametrize("end", ["archived", "cancelled", "quarantined", "undecodable", "missing"])
async def test_a_failure_stops_what_depends_on_it_alone(
    store: Store, observer: Observer, end: str
) -> None:
    await begin(store, {"a": [], "b": ["a"], "c": ["b"], "x": [], "y": ["x"]})
    await store.workflows.advance(COORDINATOR)
    if end == "missing":
        await observer.execute("DELETE FROM headgate_job WHERE ulid = 'w:a'")
    else:
        await put(observer, end, "a")
    await put(observer, "completed", "x")
    standing = await store.workflows.advance(COORDINATOR)
    assert (standing.live, standing.failed) == (True, ("a",))
    assert await states(observer, "b", "c", "y") == ["cancelled", "cancelled", "available"]
    await put(observer, "completed", "y")
    assert not (await store.workflows.advance(COORDINATOR)).live
    found = await seen(store)
    assert {n.name: (n.failed, n.stopped) for n in found.nodes if n.name != "x"} == {
        "a": (True, False),
        "b": (False, True),
        "c": (False, True),
        "y": (False, False),
    }
    assert found.failed
    assert found.failed_subgraph_retry == (end in {"archived", "cancelled", "undecodable"})


async def test_two_at_a_time_advance_it_once(store: Store, observer: Observer) -> None:
    await begin(store, {f"n{number}": [] for number in range(40)})
    await asyncio.gather(*(store.workflows.advance(COORDINATOR) for _ in range(8)))
    rows = await observer.fetch("SELECT state, count(*) FROM headgate_job GROUP BY state")
    assert {row["state"]: row["count"] for row in rows} == {"available": 41}


async def test_a_node_whose_unique_key_is_held_waits_for_it(
    store: Store, observer: Observer
) -> None:
    await begin(store, {"a": [], "b": []}, unique_key=None)
    await observer.execute("UPDATE headgate_job SET unique_key = 'k' WHERE ulid = 'w:a'")
    await observer.execute(
        "UPDATE headgate_job SET unique_key = 'k', state = 'archived' WHERE ulid = 'w:b'"
    )
    await store.workflows.advance(COORDINATOR)
    await store.workflows.advance(COORDINATOR)
    assert await states(observer, "a") == ["available"]
    with pytest.raises(DuplicateJob):
        await store.workflows.retry("w", expected_revision=1)
    assert (await seen(store)).revision == 1


async def test_what_failed_is_retried_and_what_it_stopped_follows(
    store: Store, observer: Observer
) -> None:
    await begin(store, DIAMOND)
    await store.workflows.advance(COORDINATOR)
    await put(observer, "completed", "a")
    await store.workflows.advance(COORDINATOR)
    await put(observer, "archived", "b")
    await put(observer, "completed", "c")
    assert not (await store.workflows.advance(COORDINATOR)).live
    await put(observer, "archived", "coordinator")
    before = await seen(store)
    assert (before.revision, before.generation, before.failed) == (1, 0, True)

    await store.workflows.retry("w", expected_revision=1)
    assert await states(observer, "coordinator", "b", "d") == [
        "available",
        "available",
        "cancelled",
    ]
    after = await seen(store)
    assert (after.revision, after.generation, after.failed) == (2, 1, False)
    assert (await store.workflows.advance(COORDINATOR)).live
    await put(observer, "completed", "b")
    assert (await store.workflows.advance(COORDINATOR)).live
    assert await states(observer, "a", "c", "d") == ["completed", "completed", "available"]
    await assert_lanes(observer)
    await put(observer, "completed", "d")
    assert not (await store.workflows.advance(COORDINATOR)).live


async def test_named_nodes_are_retried_alone(store: Store, observer: Observer) -> None:
    await begin(store, {"a": [], "b": [], "c": []})
    await put(observer, "archived", "a", "b")
    await store.workflows.retry("w", expected_revision=1, nodes=["b"])
    assert await states(observer, "a", "b") == ["archived", "available"]


async def test_retries_that_are_refused_change_nothing(store: Store, observer: Observer) -> None:
    with pytest.raises(NotFound, match="workflow w"):
        await store.workflows.retry("w", expected_revision=1)
    await begin(store, {"a": [], "b": [], "c": []})
    for nodes, failure, text in (
        (None, InvalidRequest, "workflow w has no failed node"),
        (["z"], NotFound, "node z"),
        (["a"], InvalidRequest, "node a has not failed"),
    ):
        with pytest.raises(failure, match=text):
            await store.workflows.retry("w", expected_revision=1, nodes=nodes)
    with pytest.raises(Conflict, match="workflow w has revision 1, not 7"):
        await store.workflows.retry("w", expected_revision=7)
    await put(observer, "archived", "a")
    await put(observer, "quarantined", "b")
    with pytest.raises(InvalidRequest, match="node b is quarantined; release its fingerprint"):
        await store.workflows.retry("w", expected_revision=1)
    await observer.execute("DELETE FROM headgate_job WHERE ulid = 'w:b'")
    with pytest.raises(InvalidRequest, match="node b is gone and cannot be retried"):
        await store.workflows.retry("w", expected_revision=1)
    assert await states(observer, "a") == ["archived"]
    assert (await seen(store)).revision == 1


async def test_two_operators_retry_once(store: Store, observer: Observer) -> None:
    await begin(store, {"a": []})
    await put(observer, "archived", "a")
    answers = await asyncio.gather(
        *(store.workflows.retry("w", expected_revision=1) for _ in range(4)),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["Conflict"] * 3 + ["NoneType"]


async def test_a_cancelled_workflow_has_nothing_left_that_runs(
    store: Store, observer: Observer
) -> None:
    await begin(store, DIAMOND)
    await store.workflows.advance(COORDINATOR)
    await put(observer, "completed", "a")
    await store.workflows.cancel("w")
    assert await states(observer, "coordinator", *DIAMOND) == [
        "cancelled",
        "completed",
        "cancelled",
        "cancelled",
        "cancelled",
    ]
    assert (await seen(store)).revision == 2
    with pytest.raises(InvalidRequest, match="workflow w has ended"):
        await store.workflows.cancel("w")


async def test_the_same_workflow_again_is_the_same_one(store: Store, observer: Observer) -> None:
    await begin(store, DIAMOND)
    await begin(store, DIAMOND)
    assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 5


async def test_another_job_of_that_id_is_no_workflow(store: Store, observer: Observer) -> None:
    await store.producer.enqueue(
        [
            Envelope(id="x:coordinator", kind="other"),
            Envelope(id="y:coordinator", kind="headgate:workflow", payload=b"{}"),
        ]
    )
    for name in ("x", "y", "nobody", "a\0b"):
        assert await store.workflows.workflow(name) is None
    page = await store.workflows.page(limit=10, cursor=None)
    assert [each.workflow_id for each in page.workflows] == ["y"]


async def test_pages_are_newest_first(store: Store) -> None:
    for number in range(3):
        workflow = Workflow(f"w{number}")
        workflow.add(Envelope(kind="step"))
        await store.producer.enqueue(workflow.jobs())
    first = await store.workflows.page(limit=2, cursor=None)
    assert [each.workflow_id for each in first.workflows] == ["w2", "w1"]
    assert first.next_cursor is not None
    rest = await store.workflows.page(limit=2, cursor=int(first.next_cursor))
    assert [each.workflow_id for each in rest.workflows] == ["w0"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_look_at_a_workflow_reads_its_own_jobs(
    store: Store, observer: Observer, mode: PlanMode
) -> None:
    await begin(store, {f"n{number}": [] for number in range(100)})
    await store.producer.enqueue([Envelope(kind="other") for _ in range(900)])
    for session in ({"enable_seqscan": "off", "enable_bitmapscan": "off"}, {}):
        for name in ("enable_seqscan", "enable_bitmapscan"):
            await observer.execute(
                "SELECT set_config($1, $2, false)", name, session.get(name, "on")
            )
        nodes = await plan_of(
            observer, node_jobs(), {"job_id_array": [f"w:n{n}" for n in range(100)]}, mode
        )
        assert scans_of(nodes, "headgate_job") == {"Index Scan headgate_job_ulid_key"}
        assert pages_read(nodes) <= 100 * 4
        one = await plan_of(observer, read_coordinator(), {"coordinator_job_id": COORDINATOR}, mode)
        assert pages_read(one) <= 6
