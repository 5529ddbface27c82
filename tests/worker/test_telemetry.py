"""What a worker tells those who listen to it."""

import asyncio
import socket
from collections.abc import Callable
from types import TracebackType
from urllib.request import urlopen

from headgate import Headgate, JobContext, RateLimited, Skip, Snooze, Store
from headgate.duties.reclaimer import Reclaimer
from headgate.duties.retention import Evictions
from headgate.model.envelope import Envelope
from headgate.model.job import Claim
from headgate.telemetry import (
    Admitted,
    Completed,
    Event,
    Evicted,
    JobSpan,
    Quarantined,
    Rejected,
    WorkerSaturation,
)
from headgate.testing import advance_time
from tests.store.rows import Observer
from tests.store.waiting import until
from tests.worker.conftest import StartProcess, StartWorker

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Span:
    def __init__(self, claim: Claim, finished: list[tuple[str, str | None]]) -> None:
        self.open = False
        self._finished = finished

    def __enter__(self) -> None:
        self.open = True

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        self.open = False

    def finish(self, outcome: str, error: str | None) -> None:
        self._finished.append((outcome, error))


class Listener:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.spans: dict[str, Span] = {}
        self.finished: list[tuple[str, str | None]] = []

    def on_event(self, event: Event, /) -> None:
        self.events.append(event)

    def attempt(self, claim: Claim, /) -> Span:
        self.spans[claim.job_id] = Span(claim, self.finished)
        return self.spans[claim.job_id]

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def told(listener: Listener, count: int) -> Callable[[], "asyncio.Future[bool]"]:
    async def enough() -> bool:
        return len(listener.of(JobSpan)) >= count

    return lambda: asyncio.ensure_future(enough())


async def test_every_attempt_is_told_once_with_how_it_ended(
    app: Headgate, start_worker: StartWorker
) -> None:
    listener = Listener()
    app.telemetry.add(listener)
    was_open: list[bool] = []

    @app.task("good")
    async def good(ctx: JobContext) -> None:
        was_open.append(listener.spans[ctx.id].open)

    @app.task("bad")
    async def bad() -> None:
        raise RuntimeError("no luck")

    @app.task("off")
    def off() -> None:
        raise Skip("not today")

    @app.task("later")
    async def later() -> None:
        raise Snooze(delay_ms=60_000)

    @app.task("full")
    async def full() -> None:
        raise RateLimited(after_ms=60_000)

    await good.enqueue(headers={"traceparent": TRACE})
    for task in (bad, off, later, full):
        await task.enqueue()
    start_worker()
    await until(told(listener, 5))
    spans = {span.kind: span for span in listener.of(JobSpan) if isinstance(span, JobSpan)}
    assert {kind: span.outcome for kind, span in spans.items()} == {
        "good": "success",
        "bad": "retry",
        "off": "skip",
        "later": "snooze",
        "full": "rate_limited",
    }
    assert spans["good"].trace == TRACE
    assert spans["bad"].trace is None
    assert all(0 <= span.ms < 10_000 and span.started_at_ms > 10**12 for span in spans.values())
    assert was_open == [True]
    assert not any(span.open for span in listener.spans.values())
    assert sorted(outcome for outcome, _ in listener.finished) == [
        "rate_limited",
        "retry",
        "skip",
        "snooze",
        "success",
    ]
    assert listener.of(Completed) == [Completed("good", spans["good"].ms)]
    assert listener.of(Rejected) == [Rejected("default", "rate_class", 1)]
    admitted = [event for event in listener.of(Admitted) if isinstance(event, Admitted)]
    assert sum(event.count for event in admitted) == 5
    assert {event.queue for event in admitted} == {"default"}


async def test_a_report_that_does_not_count_is_a_lost_lease(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    listener = Listener()
    app.telemetry.add(listener)

    @app.task("slow")
    async def slow(ctx: JobContext) -> None:
        # Somebody else takes it over, and this worker cannot know yet.
        await observer.execute("UPDATE headgate_job SET fence = fence + 1")

    await slow.enqueue()
    start_worker(lease_ms=60_000)
    await until(told(listener, 1))
    [span] = listener.of(JobSpan)
    assert isinstance(span, JobSpan)
    assert span.outcome == "lease_lost"
    assert listener.of(Completed) == []


async def test_heartbeats_tell_how_busy_the_worker_is(
    app: Headgate, start_worker: StartWorker
) -> None:
    listener = Listener()
    app.telemetry.add(listener)
    worker = start_worker(concurrency=4, lease_ms=300)

    async def told_twice() -> bool:
        return len(listener.of(WorkerSaturation)) > 1

    await until(told_twice)
    saturation = listener.of(WorkerSaturation)[-1]
    assert isinstance(saturation, WorkerSaturation)
    assert (saturation.worker, saturation.capacity) == (worker.worker_id, 4)
    assert (saturation.inflight, saturation.utilization) == (0, 0)


async def test_duties_tell_of_quarantines_and_evictions(store: Store, observer: Observer) -> None:
    events: list[Event] = []
    await store.producer.enqueue([Envelope(kind="k", fingerprint="bad", queue="q")])
    await observer.execute("UPDATE headgate_job SET crash_attempt = 2")
    await store.gate.admit("w", ["q"], 1, 1_000)
    await advance_time(store, 1_000)
    assert await Reclaimer(events.append).run_once(store) == 1
    assert events == [Quarantined("bad", 3)]
    events.clear()
    for queue in ("a", "b", "b"):
        await store.producer.enqueue([Envelope(kind="k", queue=queue, retention_ms=1_000)])
    await observer.execute(
        "UPDATE headgate_job SET state = 'completed', finalized_at_ms = 1 WHERE queue <> 'q'"
    )
    assert await Evictions(on_event=events.append).run_once(store) == 3
    assert sorted(events, key=str) == [Evicted("a", 1), Evicted("b", 2)]


SOURCE = """
from headgate import Headgate

app = Headgate()


@app.task("count")
async def count() -> None: ...
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def test_the_command_serves_what_its_worker_does(
    start_process: StartProcess, store: Store
) -> None:
    port = free_port()
    process = start_process(SOURCE, f"--metrics-port={port}")
    await store.producer.enqueue([Envelope(kind="count") for _ in range(3)])

    def read() -> str:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    async def counted() -> bool:
        try:
            text = await asyncio.to_thread(read)
        except OSError:
            return False
        return 'headgate_jobs_completed_total{kind="count"} 3.0' in text

    await until(counted, seconds=30)
    second = start_process(SOURCE, f"--metrics-port={port}")
    assert await asyncio.to_thread(second.ended, 30_000) != 0
    assert f"cannot serve metrics on 127.0.0.1:{port}: Address already in use" in second.output
    assert "Traceback" not in second.output
    assert process.status is None
