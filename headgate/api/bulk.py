"""Actions on whole selections of jobs, and how far they have come."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.errors import absent
from headgate.api.operations import Answer, operation, refused
from headgate.api.paging import BAD_LIMIT, PageQuery, page_answer, page_response
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.api.wire import Milliseconds, narrower
from headgate.model.access import Role
from headgate.model.operation import JobSelector, Operation, OperationEntry
from headgate.model.operators import ARCHIVE_REFUSED, BULK_ACTIONS

_Text = Annotated[str, narrower(pattern=r"^[^\u0000]*$")]

_PENDING: Final = Operation(
    id="hg019ad8a1b2c3f00dcafe5",
    status="pending",
    affected=0,
    total_estimated=1_200,
    dry_run=False,
    error=None,
)
_RUNNING: Final = msgspec.structs.replace(_PENDING, status="running", affected=500)
_CANCELLED: Final = msgspec.structs.replace(_RUNNING, status="cancelled")
_COUNTED: Final = msgspec.structs.replace(_PENDING, status="completed", dry_run=True)
_LISTED: Final = OperationEntry(
    **msgspec.structs.asdict(_RUNNING),
    action="retry",
    selector={"queue": "mail"},
    created_at_ms=1_767_225_600_000,
    finished_at_ms=None,
)
_LINKS: Final = {
    name: (name, {"id": "$response.body#/id"}) for name in ("read_operation", "cancel_operation")
}


class SelectorBody(msgspec.Struct, kw_only=True, frozen=True):
    """Which jobs. Every condition given must hold, and one at least must be given."""

    queue: _Text | None = None
    state: Annotated[
        _Text | None,
        Meta(description="A state from which the action is not defined selects nothing."),
    ] = None
    kind: _Text | None = None
    partition_key: _Text | None = None
    older_than_ms: Annotated[
        Milliseconds | None, Meta(description="Enqueued longer ago than this.")
    ] = None


class BulkBody(msgspec.Struct, kw_only=True, frozen=True):
    """What to do, and to which jobs."""

    example: ClassVar = {
        "action": "retry",
        "selector": {"queue": "mail"},
        "dry_run": True,
    }

    action: Annotated[
        str,
        Meta(
            description="`retry` takes archived jobs unless the selector names another state,"
            " `cancel` all that have not ended, `delete` all that do not run."
        ),
        narrower(enum=[each.value for each in BULK_ACTIONS]),
    ]
    selector: SelectorBody
    dry_run: Annotated[bool, Meta(description="Only count.")] = False


@operation(
    "POST",
    "/jobs/bulk",
    Answer(
        202,
        "The operation as it begins; a dry run is completed at once.",
        Operation,
        examples={"begun": _PENDING, "dry run": _COUNTED},
        links=_LINKS,
    ),
    refused(
        400,
        "There is no such action, or nothing is selected.",
        "empty selector is rejected",
        "unknown action `explode`",
        ARCHIVE_REFUSED,
    ),
    role=Role.OPERATOR,
)
async def act_in_bulk(request: ApiRequest, body: BulkBody) -> Response:
    """Retry, cancel or delete every job of a selection.

    Workers do it in batches, jobs that were enqueued before only. `total_estimated` counts what is
    selected now: exactly for a queue or a state, else among the first 20,000 jobs of a search.
    """
    selector = JobSelector(**msgspec.structs.asdict(body.selector))
    operation = await request.store.operations.create(body.action, selector, dry_run=body.dry_run)
    return json_response(operation, 202)


@operation(
    "GET",
    "/operations",
    page_answer(
        "A page of the operations: unfinished ones, then finished ones, the newest of each first.",
        OperationEntry,
        operations=[_LISTED],
        links={"first": ("read_operation", {"id": "$response.body#/0/id"})},
    ),
    BAD_LIMIT,
)
async def list_operations(request: ApiRequest, query: PageQuery) -> Response:
    """List operations.

    Finished ones are kept for 7 days.
    """
    return page_response(await request.store.operations.page(query.page))


@operation(
    "GET",
    "/operations/{id}",
    Answer(200, "How far it has come.", Operation, examples={"running": _RUNNING}),
    refused(404, "No operation has this id.", "no such operation"),
)
async def read_operation(request: ApiRequest, id: str) -> Response:
    """Read one operation.

    `status` is `pending`, `running`, `completed`, `failed` or `cancelled`. Finished ones are kept
    for 7 days.
    """
    operation = await request.store.operations.get(id)
    if operation is None:
        raise absent("no such operation")
    return json_response(operation)


@operation(
    "DELETE",
    "/operations/{id}",
    Answer(
        202,
        "It ends after the batch in flight.",
        Operation,
        examples={"cancelled": _CANCELLED},
        links={"operation": ("read_operation", {"id": "$request.path.id"})},
    ),
    refused(400, "It is over.", "operation hg019ad8a1b2c3f00dcafe5 is already completed"),
    refused(404, "No operation has this id.", "not found: operation hg019ad8a1b2c3f00dcafe5"),
    role=Role.OPERATOR,
)
async def cancel_operation(request: ApiRequest, id: str) -> Response:
    """End an operation before its time.

    What it has done stays done. A queue whose deletion is cancelled takes jobs in again.
    """
    return json_response(await request.store.operations.cancel(id), 202)
