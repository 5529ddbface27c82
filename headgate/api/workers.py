"""Workers: who is there, how busy they are, and what they are told."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import Answer, operation, refused
from headgate.api.paging import BAD_LIMIT, PageQuery, page_answer, page_response
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response, json_response
from headgate.api.wire import narrower
from headgate.model.access import Role
from headgate.model.fleet import (
    COMMANDS,
    Cluster,
    DutyState,
    QueueCoverage,
    WorkerCounts,
    WorkerView,
)

_WORKER: Final = WorkerView(
    worker_id="host-7-4711",
    host="host-7",
    pid=4711,
    queues=["mail", "reports"],
    concurrency=8,
    started_at_ms=1_767_225_600_000,
    heartbeat_at_ms=1_767_229_200_000,
    inflight=6,
    polls=1_000,
    empty_polls=200,
    utilization=0.75,
    empty_poll_ratio=0.2,
    status="running",
    duties_active=True,
    pending_command=None,
)
_CLUSTER: Final = Cluster(
    workers=WorkerCounts(live=1, stale=1, total=2),
    capacity_total=8,
    inflight_total=6,
    utilization=0.75,
    empty_poll_ratio=0.2,
    polls_total=1_000,
    empty_polls_total=200,
    queues=[QueueCoverage("mail", 1), QueueCoverage("thumbnails", 0)],
)
_DUTY: Final = DutyState(
    name="promoter",
    holder="host-7-4711",
    expires_at_ms=1_767_229_215_000,
    last_success_ms=1_767_229_210_000,
    lag_ms=0,
    rows_handled=48_112,
)


class SignalBody(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker is to do at its next heartbeat; null takes back what it was told."""

    example: ClassVar = {"command": "quiet"}

    command: Annotated[
        Annotated[str, narrower(enum=list(COMMANDS))] | None,
        Meta(
            description="`quiet`: take no more jobs; `resume`: take jobs again; `restart`, and"
            " `terminate`: finish what runs and end; `resign`: leave the duties to others."
        ),
    ] = None


@operation(
    "GET",
    "/workers",
    page_answer(
        "A page of the live workers by id.",
        WorkerView,
        workers=[_WORKER],
        links={"signal": ("signal_worker", {"worker_id": "$response.body#/0/worker_id"})},
    ),
    BAD_LIMIT,
)
async def list_workers(request: ApiRequest, query: PageQuery) -> Response:
    """List the live workers.

    One counts as live for 15 minutes after its last heartbeat.
    """
    return page_response(await request.store.fleet.workers(query.page))


@operation(
    "POST",
    "/workers/{worker_id}/signal",
    Answer(204, "It will be told at its next heartbeat."),
    refused(
        400,
        "There is no such command.",
        "command must be quiet, resume, restart, terminate, or resign",
    ),
    refused(404, "No worker has this id.", "not found: worker host-7-4711"),
    role=Role.OPERATOR,
)
async def signal_worker(request: ApiRequest, worker_id: str, body: SignalBody) -> Response:
    """Leave a command for a worker.

    It has room for one: another command takes the place of one that was not fetched yet.
    """
    await request.store.workers.signal(worker_id, body.command)
    return empty_response()


@operation(
    "GET",
    "/cluster",
    Answer(200, "Sums over the live workers.", Cluster, examples={"cluster": _CLUSTER}),
)
async def read_cluster(request: ApiRequest) -> Response:
    """Sum up the live workers, and count them for each queue.

    Ratios are those of the sums. A queue with 0 workers is one that nobody serves.
    """
    return json_response(await request.store.fleet.cluster())


@operation(
    "GET",
    "/duties",
    Answer(200, "The duties by name.", list[DutyState], examples={"duties": [_DUTY]}),
)
async def list_duties(request: ApiRequest) -> Response:
    """List the background duties, who has them, and how they get on.

    `holder` is null while nobody does; duties that nobody ever had are not listed. A `lag_ms` that
    grows is a duty that fails, that nobody does, or that has more to do than it can.
    """
    return json_response(await request.store.fleet.duties())
