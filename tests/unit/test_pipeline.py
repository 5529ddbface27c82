"""The enqueue pipeline: its order, what each stage may do, and what reaches the store."""

import asyncio
import logging
from typing import Any

import pytest

from headgate.client.authorizer import LIBRARY, EnqueueContext, Source
from headgate.client.circuit_breaker import CircuitBreaker
from headgate.client.hooks import (
    EnqueueConflicted,
    EnqueueDuplicated,
    EnqueueHook,
    EnqueueOutcome,
    EnqueueRejected,
    EnqueueSucceeded,
)
from headgate.client.middleware import (
    EnqueueMode,
    EnqueueRequest,
    Next,
    TraceContextMiddleware,
)
from headgate.client.pipeline import EnqueuePipeline
from headgate.client.plugins import EnqueuePlugin
from headgate.model.access import Identity
from headgate.model.envelope import Envelope
from headgate.model.errors import (
    CircuitOpen,
    DuplicateJob,
    EnqueueForbidden,
    IdConflict,
    InvalidRequest,
    MiddlewareError,
    StoreUnavailable,
)
from headgate.model.job import Enqueued

JOB = Envelope(kind="mail", payload=b"{}", headers={"a": "1"})


class Trail:
    """Everything that happens, in order; also the store at the end."""

    def __init__(self, *errors: BaseException) -> None:
        self.steps: list[str] = []
        self.written: list[list[Envelope]] = []
        self._errors = list(errors)

    async def write(self, jobs: list[Envelope]) -> list[Enqueued]:
        self.steps.append("store")
        self.written.append(jobs)
        if self._errors:
            raise self._errors.pop(0)
        return [Enqueued(job.id or "made") for job in jobs]

    def around(self, name: str) -> Any:
        async def middleware(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
            self.steps.append(f"> {name}")
            try:
                return await call_next(request)
            finally:
                self.steps.append(f"< {name}")

        return middleware

    def hook(self, name: str) -> "RecordingHook":
        return RecordingHook(self, name)

    def authorizer(self, job: Envelope, context: EnqueueContext) -> bool:
        self.steps.append(f"authorize {job.kind}")
        return job.kind != "forbidden"


class RecordingHook(EnqueueHook):
    def __init__(self, trail: Trail, name: str) -> None:
        self._trail = trail
        self._name = name
        self.outcomes: list[EnqueueOutcome] = []

    def on_begin(self, request: EnqueueRequest) -> None:
        self._trail.steps.append(f"begin {self._name}")

    def on_end(self, request: EnqueueRequest, outcome: EnqueueOutcome) -> None:
        self._trail.steps.append(f"end {self._name}")
        self.outcomes.append(outcome)


async def test_the_order_of_everything() -> None:
    trail = Trail()
    pipeline = EnqueuePipeline(
        authorizer=trail.authorizer,
        circuit_breaker=CircuitBreaker(),
        middleware=[trail.around("first"), trail.around("second")],
        hooks=[trail.hook("alone")],
        plugins=[
            EnqueuePlugin(
                "some",
                middleware=[trail.around("some")],
                hooks=[trail.hook("some")],
                kinds=["mail"],
            ),
            EnqueuePlugin("all", middleware=[trail.around("all")], hooks=[trail.hook("all")]),
        ],
    )
    assert await pipeline.enqueue([JOB, JOB], trail.write) == [Enqueued("made")] * 2
    assert trail.steps == [
        "> first", "> second", "> all", "> some",
        "authorize mail", "authorize mail",
        "begin alone", "begin all", "begin some",
        "store",
        "end alone", "end all", "end some",
        "< some", "< all", "< second", "< first",
    ]  # fmt: skip


async def test_nothing_in_between_writes_what_was_given() -> None:
    trail = Trail()
    await EnqueuePipeline().enqueue([JOB], trail.write)
    assert trail.written == [[JOB]]


async def test_the_breaker_knows_the_outcome_before_the_hooks_do() -> None:
    breaker = CircuitBreaker(failure_threshold=1)
    states: list[str] = []

    class Watching(EnqueueHook):
        def on_end(self, request: EnqueueRequest, outcome: EnqueueOutcome) -> None:
            states.append(breaker.snapshot().state)

    pipeline = EnqueuePipeline(circuit_breaker=breaker, hooks=[Watching()])
    with pytest.raises(StoreUnavailable):
        await pipeline.enqueue([JOB], Trail(StoreUnavailable("away")).write)
    assert states == ["open"]


async def test_one_denial_refuses_the_whole_batch_before_anything() -> None:
    trail = Trail()
    breaker = CircuitBreaker(failure_threshold=1)
    pipeline = EnqueuePipeline(
        authorizer=trail.authorizer, circuit_breaker=breaker, hooks=[trail.hook("one")]
    )
    batch = [JOB, Envelope(kind="forbidden"), Envelope(kind="later")]
    with pytest.raises(EnqueueForbidden) as denied:
        await pipeline.enqueue(batch, trail.write)
    assert denied.value.kind == "forbidden"
    assert trail.steps == ["authorize mail", "authorize forbidden"]
    assert breaker.snapshot().consecutive_failures == 0


async def test_the_authorizer_learns_who_asks() -> None:
    asked: list[EnqueueContext] = []

    def authorizer(job: Envelope, context: EnqueueContext) -> bool:
        asked.append(context)
        return True

    identity = Identity("ada", {"tenant": "acme"})
    context = EnqueueContext(Source.HTTP, identity)
    pipeline = EnqueuePipeline(authorizer=authorizer)
    await pipeline.enqueue([JOB], Trail().write, context=context)
    await pipeline.enqueue([JOB], Trail().write)
    assert asked == [context, LIBRARY]
    assert asked[1].identity is None


async def test_an_open_circuit_asks_neither_store_nor_hooks() -> None:
    trail = Trail(StoreUnavailable("away"))
    pipeline = EnqueuePipeline(
        circuit_breaker=CircuitBreaker(failure_threshold=1), hooks=[trail.hook("one")]
    )
    with pytest.raises(StoreUnavailable):
        await pipeline.enqueue([JOB], trail.write)
    with pytest.raises(CircuitOpen):
        await pipeline.enqueue([JOB], trail.write)
    assert trail.steps == ["begin one", "store", "end one"]


async def test_a_middleware_changes_copies() -> None:
    async def renaming(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        for job in request.jobs:
            job.kind = "other"
            job.headers["b"] = "2"
        request.jobs.append(Envelope(kind="added"))
        return (await call_next(request))[:1]

    trail = Trail()
    batch = [JOB]
    assert await EnqueuePipeline(middleware=[renaming]).enqueue(batch, trail.write) == [
        Enqueued("made")
    ]
    assert [job.kind for job in trail.written[0]] == ["other", "added"]
    assert trail.written[0][0].headers == {"a": "1", "b": "2"}
    assert (batch, JOB.kind, JOB.headers) == ([JOB], "mail", {"a": "1"})


async def test_a_middleware_may_turn_it_down_or_answer_by_itself() -> None:
    async def refusing(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        raise MiddlewareError("not today")

    async def answering(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        return [Enqueued("elsewhere")]

    trail = Trail()
    hook = trail.hook("one")
    with pytest.raises(MiddlewareError, match="not today"):
        await EnqueuePipeline(middleware=[refusing], hooks=[hook]).enqueue([JOB], trail.write)
    answer = await EnqueuePipeline(middleware=[answering], hooks=[hook]).enqueue([JOB], trail.write)
    assert answer == [Enqueued("elsewhere")]
    assert trail.steps == []


async def test_every_trip_to_the_store_is_told_to_the_hooks() -> None:
    async def trying_again(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        try:
            return await call_next(request)
        except StoreUnavailable:
            return await call_next(request)

    trail = Trail(StoreUnavailable("away"))
    hook = trail.hook("one")
    await EnqueuePipeline(middleware=[trying_again], hooks=[hook]).enqueue([JOB], trail.write)
    assert trail.steps == ["begin one", "store", "end one"] * 2
    assert isinstance(hook.outcomes[0], EnqueueRejected)
    assert hook.outcomes[1] == EnqueueSucceeded([Enqueued("made")])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (DuplicateJob("held", replaced=True), EnqueueDuplicated("held", replaced=True)),
        (IdConflict("x"), EnqueueConflicted("x")),
        (cancelled := asyncio.CancelledError(), EnqueueRejected(cancelled)),
    ],
    ids=["duplicate", "conflict", "cancelled"],
)
async def test_what_hooks_are_told(error: BaseException, outcome: EnqueueOutcome) -> None:
    trail = Trail(error)
    hook = trail.hook("one")
    with pytest.raises(type(error)):
        await EnqueuePipeline(hooks=[hook]).enqueue([JOB], trail.write)
    assert hook.outcomes == [outcome]


async def test_a_hook_that_fails_is_logged_and_harmless(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(EnqueueHook):
        def on_begin(self, request: EnqueueRequest) -> None:
            raise RuntimeError("begin")

        def on_end(self, request: EnqueueRequest, outcome: EnqueueOutcome) -> None:
            raise RuntimeError("end")

    trail = Trail()
    pipeline = EnqueuePipeline(hooks=[Broken(), trail.hook("next")])
    with caplog.at_level(logging.ERROR, logger="headgate.client"):
        assert await pipeline.enqueue([JOB], trail.write) == [Enqueued("made")]
    assert trail.steps == ["begin next", "store", "end next"]
    assert len(caplog.records) == 2


async def test_a_plugin_for_a_kind_sees_the_whole_batch_when_one_job_is_of_it() -> None:
    seen: list[list[str]] = []

    async def looking(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        seen.append([job.kind for job in request.jobs])
        return await call_next(request)

    trail = Trail()
    hook = trail.hook("scoped")
    pipeline = EnqueuePipeline(
        plugins=[EnqueuePlugin("mail", middleware=[looking], hooks=[hook], kinds=["mail"])]
    )
    await pipeline.enqueue([Envelope(kind="other"), JOB], trail.write)
    await pipeline.enqueue([Envelope(kind="other")], trail.write)
    assert seen == [["other", "mail"]]
    assert len(hook.outcomes) == 1


async def test_whom_a_plugin_concerns_is_asked_where_its_turn_comes() -> None:
    async def renaming(request: EnqueueRequest, call_next: Next) -> list[Enqueued]:
        request.jobs[0].kind = "other"
        return await call_next(request)

    trail = Trail()
    before, after = trail.hook("before"), trail.hook("after")
    pipeline = EnqueuePipeline(
        middleware=[renaming],
        plugins=[
            EnqueuePlugin("mail", hooks=[before], kinds=["mail"]),
            EnqueuePlugin("other", hooks=[after], kinds=["other"]),
        ],
    )
    await pipeline.enqueue([JOB], trail.write)
    assert (len(before.outcomes), len(after.outcomes)) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": ""}, "plugin name must not be empty"),
        ({"name": "x", "kinds": []}, "plugin x: kinds must not be empty"),
        ({"name": "x", "kinds": ["a b"]}, "invalid kind `a b`"),
    ],
)
def test_a_plugin_that_cannot_be(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        EnqueuePlugin(**arguments)


async def test_the_trace_goes_into_the_headers_unless_there_is_one() -> None:
    trail = Trail()
    pipeline = EnqueuePipeline(middleware=[TraceContextMiddleware(lambda: {"traceparent": "now"})])
    traced = Envelope(kind="mail", headers={"traceparent": "then"})
    await pipeline.enqueue([JOB, traced], trail.write)
    assert [job.headers["traceparent"] for job in trail.written[0]] == ["now", "then"]
    assert "traceparent" not in JOB.headers


def test_without_an_event_loop_all_but_middleware_takes_part() -> None:
    trail = Trail()
    hook = trail.hook("one")
    modes: list[EnqueueMode] = []

    class Mode(EnqueueHook):
        def on_begin(self, request: EnqueueRequest) -> None:
            modes.append(request.mode)

    def write(jobs: list[Envelope]) -> list[Enqueued]:
        trail.steps.append("store")
        return [Enqueued("made")]

    pipeline = EnqueuePipeline(authorizer=trail.authorizer, hooks=[hook, Mode()])
    assert pipeline.enqueue_blocking([JOB], write) == [Enqueued("made")]
    assert trail.steps == ["authorize mail", "begin one", "store", "end one"]
    assert modes == [EnqueueMode.TRANSACTIONAL]
    with pytest.raises(EnqueueForbidden):
        pipeline.enqueue_blocking([Envelope(kind="forbidden")], write)
    with pytest.raises(InvalidRequest, match="middleware needs an enqueue that is awaited"):
        EnqueuePipeline(middleware=[trail.around("x")]).enqueue_blocking([JOB], write)
