"""The installation in numbers, for Prometheus: those of the database, from whatever process."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starlette.responses import Response

from headgate.api.health import VERSION
from headgate.api.operations import Answer, operation
from headgate.api.requests import ApiRequest
from headgate.model.exposition import CONTENT_TYPE, Gauge, render
from headgate.model.fleet import Cluster, DutyState, WorkerView
from headgate.model.page import Page, PageRequest
from headgate.model.policy import RateClass
from headgate.model.queue import QueueStatistics
from headgate.store.store import Store

MAX_PAGES: Final = 5
"""Of each list so many pages are read: 1,000 queues, workers and rate classes."""

Item = TypeVar("Item")


@operation(
    "GET",
    "/metrics",
    Answer(
        200,
        "Gauges in the text format of Prometheus.",
        str,
        media_type="text/plain",
        examples={
            "metrics": "# HELP headgate_queue_unfinished_jobs Jobs that have not ended.\n"
            "# TYPE headgate_queue_unfinished_jobs gauge\n"
            'headgate_queue_unfinished_jobs{queue="mail"} 17\n'
        },
    ),
    prefix="",
)
async def read_metrics(request: ApiRequest) -> Response:
    """Read the state of queues, workers, duties and rate classes as metrics.

    The first 1,000 of each list; `headgate_metrics_truncated` is 1 for a list that is longer. What
    a worker has done since its start, it tells itself.
    """
    gauges = await gather(request.store)
    return Response(render(gauges), headers={"content-type": CONTENT_TYPE})


async def gather(store: Store) -> list[Gauge]:
    """The gauges as the database has them now. Raises `StoreUnavailable`."""
    truncated = Gauge("headgate_metrics_truncated", "Whether a list was too long to be read whole.")

    async def read(
        name: str, page_of: Callable[[PageRequest], Awaitable[Page[Item]]]
    ) -> list[Item]:
        page = await page_of(PageRequest())
        items = page.items
        for _ in range(MAX_PAGES - 1):
            if page.next_cursor is None:
                break
            page = await page_of(PageRequest(cursor=page.next_cursor))
            items += page.items
        truncated.set(page.next_cursor is not None, list=name)
        return items

    queues = await read("queues", store.queues.page)
    workers = await read("workers", store.fleet.workers)
    rate_classes = await read("rate_classes", store.policies.rate_classes)
    fingerprints = await read("quarantine", store.quarantine.entries)
    quarantined = Gauge("headgate_quarantined_fingerprints", "Fingerprints in quarantine.")
    quarantined.set(len(fingerprints))
    build = Gauge("headgate_build_info", "The version of the process that answers.")
    build.set(1, version=VERSION)
    return [
        build,
        *queue_gauges(queues),
        *cluster_gauges(await store.fleet.cluster()),
        *worker_gauges(workers),
        *duty_gauges(await store.fleet.duties()),
        *rate_class_gauges(rate_classes),
        quarantined,
        truncated,
    ]


def queue_gauges(queues: list[QueueStatistics]) -> list[Gauge]:
    """What there is to say of each queue."""
    jobs = Gauge("headgate_queue_jobs", "Jobs by state; the states that occur.")
    unfinished = Gauge("headgate_queue_unfinished_jobs", "Jobs that have not ended.")
    limit = Gauge("headgate_queue_max_unfinished_jobs", "Beyond so many, new jobs are refused.")
    arrival = Gauge("headgate_queue_arrival_jobs_per_second", "Jobs that come in.")
    drain = Gauge("headgate_queue_drain_jobs_per_second", "Jobs that are completed.")
    to_drain = Gauge(
        "headgate_queue_time_to_drain_seconds", "Until the queue is empty; +Inf while it grows."
    )
    oldest = Gauge(
        "headgate_queue_oldest_available_seconds", "How long the next jobs have waited at most."
    )
    weight = Gauge("headgate_queue_weight", "Share of the capacity among queues with work.")
    paused = Gauge("headgate_queue_paused", "Whether admission is stopped.")
    for each in queues:
        name = each.queue
        for state, number in each.by_state.items():
            jobs.set(number, queue=name, state=state)
        unfinished.set(each.unfinished_jobs, queue=name)
        if each.max_unfinished_jobs is not None:
            limit.set(each.max_unfinished_jobs, queue=name)
        arrival.set(each.arrival_rate, queue=name)
        drain.set(each.drain_rate, queue=name)
        to_drain.set(_seconds_to_drain(each), queue=name)
        oldest.set((each.oldest_available_ms or 0) / 1000, queue=name)
        weight.set(each.weight, queue=name)
        paused.set(each.paused, queue=name)
    return [jobs, unfinished, limit, arrival, drain, to_drain, oldest, weight, paused]


def _seconds_to_drain(queue: QueueStatistics) -> float:
    if queue.time_to_drain_ms is not None:
        return queue.time_to_drain_ms / 1000
    return float("inf") if queue.unfinished_jobs else 0


def cluster_gauges(cluster: Cluster) -> list[Gauge]:
    """The workers together."""
    workers = Gauge("headgate_workers", "Workers by whether they are heard of.")
    workers.set(cluster.workers.live, status="live")
    workers.set(cluster.workers.stale, status="stale")
    served = Gauge("headgate_queue_live_workers", "Live workers that take jobs of a queue.")
    for each in cluster.queues[: MAX_PAGES * PageRequest().limit]:
        served.set(each.live_workers, queue=each.queue)
    return [workers, served]


def worker_gauges(workers: list[WorkerView]) -> list[Gauge]:
    """What each live worker said of itself last."""
    inflight = Gauge("headgate_worker_inflight", "Jobs in its hands.")
    capacity = Gauge("headgate_worker_capacity", "Jobs that it runs at a time.")
    utilization = Gauge("headgate_worker_utilization_ratio", "Jobs in its hands per capacity.")
    empty = Gauge("headgate_worker_empty_poll_ratio", "Polls that found nothing, of the last 128.")
    for each in workers:
        inflight.set(each.inflight, worker=each.worker_id)
        capacity.set(each.concurrency, worker=each.worker_id)
        utilization.set(each.utilization, worker=each.worker_id)
        empty.set(each.empty_poll_ratio, worker=each.worker_id)
    return [inflight, capacity, utilization, empty]


def duty_gauges(duties: list[DutyState]) -> list[Gauge]:
    """How each background duty gets on."""
    held = Gauge("headgate_duty_held", "Whether somebody has the duty now.")
    succeeded = Gauge(
        "headgate_duty_last_success_timestamp_seconds", "When nothing was left for it to do."
    )
    lag = Gauge("headgate_duty_lag_seconds", "How much longer ago that is than its interval.")
    rows = Gauge("headgate_duty_rows_handled", "Rows that it has handled since the first run.")
    for each in duties:
        held.set(each.holder is not None, duty=each.name)
        rows.set(each.rows_handled, duty=each.name)
        if each.last_success_ms is not None:
            succeeded.set(each.last_success_ms / 1000, duty=each.name)
        if each.lag_ms is not None:
            lag.set(each.lag_ms / 1000, duty=each.name)
    return [held, succeeded, lag, rows]


def rate_class_gauges(rate_classes: list[RateClass]) -> list[Gauge]:
    """How much each rate class lets through now."""
    tokens = Gauge("headgate_rate_class_tokens_available", "Tokens in the bucket.")
    waiting = Gauge("headgate_rate_class_jobs_waiting", "Waiting jobs, counted up to 1,000.")
    paused = Gauge("headgate_rate_class_paused", "Whether nothing passes.")
    for each in rate_classes:
        tokens.set(each.tokens_available, rate_class=each.name)
        waiting.set(each.jobs_waiting, rate_class=each.name)
        paused.set(each.paused, rate_class=each.name)
    return [tokens, waiting, paused]
