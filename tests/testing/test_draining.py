import msgspec
import pytest

from headgate import (
    Headgate,
    InvalidRequest,
    JobContext,
    RateClassPolicy,
    Retry,
    Snooze,
    Store,
    Workflow,
)
from headgate.model.lifecycle import Outcome
from headgate.model.workflow import COORDINATOR_KIND
from headgate.testing import advance_time, drain, perform


class Welcome(msgspec.Struct):
    user: int


async def test_a_drain_runs_everything_there_is(app: Headgate, store: Store) -> None:
    seen: list[int] = []

    @app.task("welcome")
    async def welcome(payload: Welcome) -> None:
        seen.append(payload.user)

    for user in range(25):
        await welcome.enqueue(Welcome(user))
    performed = await drain(app, store, concurrency=4)
    assert sorted(seen) == list(range(25))
    assert {attempt.outcome for attempt in performed} == {Outcome.SUCCESS}
    assert len(performed) == 25
    assert await drain(app, store) == []


async def test_what_handlers_enqueue_is_run_too(app: Headgate, store: Store) -> None:
    @app.task("leaf")
    def leaf() -> None: ...

    @app.task("root")
    async def root() -> None:
        await leaf.enqueue()

    await root.enqueue()
    assert [attempt.kind for attempt in await drain(app, store)] == ["root", "leaf"]


async def test_a_drain_ends_at_its_limit(app: Headgate, store: Store) -> None:
    @app.task("welcome")
    async def welcome() -> None: ...

    await app.enqueue_many([welcome.job() for _ in range(5)])
    assert len(await drain(app, store, limit=3)) == 3
    assert len(await drain(app, store)) == 2


async def test_a_failure_is_told_and_comes_back_when_its_time_has_come(
    app: Headgate, store: Store
) -> None:
    @app.task("flaky")
    async def flaky(ctx: JobContext) -> None:
        if ctx.attempt == 0:
            raise RuntimeError("no luck")

    await flaky.enqueue()
    [failed] = await drain(app, store)
    assert (failed.outcome, failed.attempt) == (Outcome.RETRY, 0)
    assert "no luck" in str(failed.error)
    assert await drain(app, store) == []
    await advance_time(store, 3_600_000)
    [succeeded] = await drain(app, store)
    assert (succeeded.outcome, succeeded.attempt) == (Outcome.SUCCESS, 1)


async def test_a_pause_keeps_jobs_from_being_drained(app: Headgate, store: Store) -> None:
    @app.task("welcome")
    async def welcome() -> None: ...

    await welcome.enqueue()
    await store.queues.pause("default")
    assert await drain(app, store) == []
    await store.queues.resume("default")
    assert len(await drain(app, store)) == 1


async def test_one_job_is_performed_and_no_other(app: Headgate, store: Store) -> None:
    @app.task("double")
    async def double(payload: Welcome) -> int:
        return payload.user * 2

    await double.enqueue(Welcome(1))
    performed = await perform(double, store, Welcome(21))
    assert (performed.outcome, performed.result) == (Outcome.SUCCESS, b"42")
    assert len(await drain(app, store)) == 1


@pytest.mark.parametrize("flow", [Snooze(delay_ms=5_000), Retry(after_ms=5_000)])
async def test_a_delayed_return_is_an_outcome_too(
    app: Headgate, store: Store, flow: Snooze | Retry
) -> None:
    @app.task("later")
    async def later() -> None:
        raise flow

    performed = await perform(later, store)
    expected = Outcome.SNOOZE if isinstance(flow, Snooze) else Outcome.RETRY
    assert performed.outcome is expected


async def test_what_is_not_due_cannot_be_performed(app: Headgate, store: Store) -> None:
    @app.task("later")
    async def later() -> None: ...

    with pytest.raises(InvalidRequest, match="was not admitted"):
        await perform(later, store, delay_ms=60_000)


@pytest.mark.parametrize("queue", ["mail", "words"])
async def test_what_was_performed_goes_on_in_its_queue(
    app: Headgate, store: Store, queue: str
) -> None:
    queues = []

    @app.task("flaky", queue="mail", retention_ms=60_000)
    async def flaky(ctx: JobContext) -> None:
        queues.append(ctx.queue)
        if ctx.attempt == 0:
            raise RuntimeError("no luck")

    chosen = {} if queue == "mail" else {"queue": queue}
    await flaky.enqueue(delay_ms=86_400_000)
    performed = await perform(flaky, store, **chosen)
    assert performed.outcome is Outcome.RETRY
    assert (await store.queues.counts(queue)).counts["retryable"] == 1
    await advance_time(store, 3_600_000)
    [again] = await drain(app, store, queues=[queue])
    assert (again.job_id, again.outcome) == (performed.job_id, Outcome.SUCCESS)
    assert queues[1] == queue


async def test_what_was_not_admitted_waits_in_its_queue(app: Headgate, store: Store) -> None:
    @app.task("lookup", queue="lookups", rate_class="vendor")
    async def lookup() -> None: ...

    await store.policies.put_rate_class("vendor", RateClassPolicy(limit=1, window_ms=1_000))
    await perform(lookup, store)
    with pytest.raises(InvalidRequest, match="was not admitted"):
        await perform(lookup, store)
    await advance_time(store, 1_000)
    assert len(await drain(app, store)) == 1


async def test_a_drain_serves_the_queues_that_a_worker_would(store: Store) -> None:
    app = Headgate(workflows=True)
    app.bind(store)

    @app.task("receipt", queue="mail")
    async def receipt() -> None: ...

    workflow = Workflow("order")
    workflow.add(receipt.job())
    await app.enqueue_workflow(workflow)
    await receipt.enqueue(queue="elsewhere")
    assert {each.kind for each in await drain(app, store)} == {COORDINATOR_KIND, "receipt"}
    assert len(await drain(app, store, queues=["elsewhere"])) == 1
