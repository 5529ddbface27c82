"""Queues: how they stand, what holds their jobs back, and what is set on them."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import Answer, operation, refused
from headgate.api.paging import BAD_LIMIT, PageQuery, page_answer, page_response
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response, json_response
from headgate.api.wire import I64, U32, U64, narrower
from headgate.model.access import Role
from headgate.model.limits import MAX_INT32
from headgate.model.queue import (
    BlockedJobs,
    BlockReasons,
    HistoryBucket,
    QueueBacklog,
    QueueStatistics,
    QuietGroups,
)

DONE: Final = Answer(204, "Done, or it was so already.")
CHANGED: Final = Answer(200, "Done. No body.")

HISTORY: Final = Answer(
    200,
    "Buckets in which something happened, oldest first, at most 10,000.",
    list[HistoryBucket],
    examples={"history": [HistoryBucket(at_ms=1_767_225_600_000, arrived=90, completed=85)]},
)
SHORT_BUCKETS: Final = refused(
    400, "The buckets are too short.", "bucket_ms must be >= 60000 (the stored granularity)"
)

_EXAMPLE: Final = QueueStatistics(
    queue="mail",
    weight=1,
    unfinished_jobs=120,
    max_unfinished_jobs=10_000,
    by_state={"available": 118, "running": 2, "archived": 3},
    arrival_rate=1.5,
    drain_rate=2.5,
    time_to_drain_ms=120_000,
    oldest_available_ms=61_000,
    paused=False,
    memory_bytes=245_760,
    count_is_approximate=False,
    quiet_groups=QuietGroups(
        arrival_rate=0.5,
        drain_rate=1.0,
        time_to_drain_ms=40_000,
        oldest_available_ms=9_000,
        noisy_partitions=1,
        approximate=False,
    ),
)
_BACKLOG: Final = QueueBacklog(
    **{name: getattr(_EXAMPLE, name) for name in QueueBacklog.__struct_fields__}
)
_BLOCKED: Final = BlockedJobs(
    queue="mail",
    waiting=120,
    reasons=BlockReasons(schedule=20, rate_class=90),
    live_workers=2,
    approximate=False,
)


class QueueWeight(msgspec.Struct, kw_only=True, frozen=True):
    """The share of a queue in the capacity of workers that also serve others."""

    example: ClassVar = {"weight": 3}

    weight: Annotated[U32, narrower(minimum=1, maximum=MAX_INT32)]


class EnqueueLimit(msgspec.Struct, kw_only=True, frozen=True):
    """How many unfinished jobs a queue may hold; 0 refuses all new ones."""

    example: ClassVar = {"max_unfinished_jobs": 10000}

    max_unfinished_jobs: Annotated[U64, narrower(maximum=2**63 - 1)]


class MemorySample(msgspec.Struct, kw_only=True, frozen=True):
    """How much to look at."""

    example: ClassVar = {"limit": 100}

    limit: Annotated[
        U32 | None, Meta(description="The newest jobs of each queue, counted as 1 to 1000.")
    ] = 100


class MemorySampled(msgspec.Struct, kw_only=True, frozen=True):
    """How many queues were weighed."""

    sampled_queues: int


class DeleteQueue(msgspec.Struct, kw_only=True, frozen=True):
    force: Annotated[bool, Meta(description="Delete a queue that is not empty, jobs and all.")] = (
        False
    )


class QueueDeletionBody(msgspec.Struct, kw_only=True, frozen=True):
    """Which operation deletes the queue."""

    operation_id: str


class QueuesQuery(PageQuery, kw_only=True, frozen=True):
    queue: Annotated[str | None, Meta(description="Only the queue of this name.")] = None


class HistoryQuery(msgspec.Struct, kw_only=True, frozen=True):
    since_ms: Annotated[I64, Meta(description="From when on, in milliseconds since the epoch.")] = 0
    bucket_ms: Annotated[
        I64,
        Meta(description="How long a bucket is."),
        narrower(minimum=60_000),
    ] = 60_000


@operation(
    "GET",
    "/queues",
    page_answer(
        "A page of the queues by name.",
        QueueStatistics,
        queues=[_EXAMPLE],
        links={
            name: (name, {"queue": "$response.body#/0/queue"})
            for name in ("read_queue_history", "read_blocked_jobs", "delete_queue")
        },
    ),
    BAD_LIMIT,
)
async def list_queues(request: ApiRequest, query: QueuesQuery) -> Response:
    """List queues.

    Those that have jobs, those that something is set on, and those that worked in the last hour.
    Rates are jobs per second. `time_to_drain_ms` null means that a queue with a backlog grows.
    """
    return page_response(await request.store.queues.page(query.page, query.queue))


@operation(
    "GET",
    "/backlog",
    page_answer("A page of the queues by name.", QueueBacklog, backlog=[_BACKLOG]),
    BAD_LIMIT,
)
async def list_backlogs(request: ApiRequest, query: PageQuery) -> Response:
    """List how much work queues have.

    The queues of `/queues`, with what is told of them without a look at their partitions. That
    takes little however many there are: for whoever asks often, or is in a hurry.
    """
    return page_response(await request.store.queues.backlogs(query.page))


@operation(
    "PUT",
    "/queues/{queue}",
    CHANGED,
    refused(400, "The weight cannot be.", "weight must be >= 1"),
    role=Role.ADMIN,
)
async def set_queue_weight(request: ApiRequest, queue: str, body: QueueWeight) -> Response:
    """Set the weight of a queue.

    Queues with work share capacity by their weights; one that nothing is set on has 1.
    """
    await request.store.queues.set_weight(queue, body.weight)
    return empty_response(200)


@operation(
    "DELETE",
    "/queues/{queue}",
    Answer(204, "It held no unfinished jobs and is forgotten."),
    Answer(
        202,
        "An operation is deleting it.",
        QueueDeletionBody,
        examples={"begun": QueueDeletionBody(operation_id="qdel-1767225600000-mail")},
        links={"operation": ("read_operation", {"id": "$response.body#/operation_id"})},
    ),
    refused(400, "It holds unfinished jobs.", "queue is not empty; retry with force=true"),
    role=Role.ADMIN,
)
async def delete_queue(request: ApiRequest, queue: str, query: DeleteQueue) -> Response:
    """Delete a queue.

    Finished jobs stay until their retention is over, and keep an empty queue in the list, as what
    it did in the last hour does. With `force` nothing more gets in, an operation deletes every job
    that does not run and waits for those that do; then only the history of the queue is left.
    """
    operation_id = await request.store.operations.delete_queue(queue, force=query.force)
    if operation_id is None:
        return empty_response()
    return json_response(QueueDeletionBody(operation_id=operation_id), 202)


@operation(
    "POST",
    "/queues/actions/sample-memory",
    Answer(
        200,
        "The samples are taken.",
        MemorySampled,
        examples={"sampled": MemorySampled(sampled_queues=3)},
    ),
    role=Role.OPERATOR,
)
async def sample_queue_memory(request: ApiRequest, body: MemorySample) -> Response:
    """Weigh the newest jobs of up to 200 queues.

    The result stands in `memory_bytes` of each.
    """
    size = 100 if body.limit is None else body.limit
    return json_response(
        MemorySampled(sampled_queues=await request.store.queues.sample_memory(size))
    )


@operation(
    "PUT",
    "/queues/{queue}/enqueue-limit",
    CHANGED,
    refused(400, "The limit cannot be.", "max_unfinished_jobs is too large"),
    role=Role.ADMIN,
)
async def set_enqueue_limit(request: ApiRequest, queue: str, body: EnqueueLimit) -> Response:
    """Limit how many unfinished jobs a queue may hold.

    An enqueue beyond it is answered 429. A queue that holds more keeps them.
    """
    await request.store.queues.set_enqueue_limit(queue, body.max_unfinished_jobs)
    return empty_response(200)


@operation(
    "DELETE",
    "/queues/{queue}/enqueue-limit",
    DONE,
    role=Role.ADMIN,
)
async def clear_enqueue_limit(request: ApiRequest, queue: str) -> Response:
    """Take the limit of a queue back."""
    await request.store.queues.clear_enqueue_limit(queue)
    return empty_response()


@operation(
    "POST",
    "/queues/{queue}/pause",
    DONE,
    role=Role.OPERATOR,
)
async def pause_queue(request: ApiRequest, queue: str) -> Response:
    """Stop handing out jobs of a queue.

    Jobs still come in, and what runs goes on.
    """
    await request.store.queues.pause(queue)
    return empty_response()


@operation(
    "POST",
    "/queues/{queue}/resume",
    DONE,
    role=Role.OPERATOR,
)
async def resume_queue(request: ApiRequest, queue: str) -> Response:
    """Go on handing out jobs of a queue."""
    await request.store.queues.resume(queue)
    return empty_response()


@operation(
    "GET",
    "/queues/{queue}/history",
    HISTORY,
    SHORT_BUCKETS,
)
async def read_queue_history(request: ApiRequest, queue: str, query: HistoryQuery) -> Response:
    """Count what arrived and what was completed, over time.

    Kept for 8 days by the minute. A queue that nobody knows has no history.
    """
    history = await request.store.queues.history(
        queue, since_ms=query.since_ms, bucket_ms=query.bucket_ms
    )
    return json_response(history)


@operation(
    "GET",
    "/queues/{queue}/blocked",
    Answer(200, "The waiting jobs by reason.", BlockedJobs, examples={"blocked": _BLOCKED}),
)
async def read_blocked_jobs(request: ApiRequest, queue: str) -> Response:
    """Count what keeps the waiting jobs of a queue.

    Each is counted under the first reason that holds it; what none holds is next to run. With
    `approximate` only the oldest were asked. A queue that nobody knows has nothing waiting.
    """
    return json_response(await request.store.queues.blocked(queue))
