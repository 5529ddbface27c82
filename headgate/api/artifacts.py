"""What the attempts of a job left with it: result, output, progress, steps."""

from typing import Final

import msgspec
from starlette.responses import Response

from headgate.api.errors import absent
from headgate.api.jobs import NO_SUCH_JOB, PAYLOADS_KEPT_BACK, require_payloads
from headgate.api.operations import Answer, operation, refused
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.model.access import Role
from headgate.model.artifacts import Checkpoint, Kept, Output, Progress
from headgate.model.job import Stored

_STEPS: Final = Checkpoint(
    completed_steps=["download"],
    last_completed_step="download",
    in_progress_step="resize",
    cursor_step="resize",
    cursor=b"page 17",
    schema_version=1,
    step_set_hash="2f1a",
    crashes_by_step={"resize": 1},
)

_PROGRESS: Final = Progress(
    current=42, total=100, message=None, fence=2, updated_at_ms=1_767_225_600_000
)


def _nothing(subject: str) -> Answer:
    return refused(404, f"There is no {subject}, or no such job.", f"no {subject} for job")


@operation(
    "GET",
    "/jobs/{id}/artifacts",
    Answer(
        200,
        "What there is.",
        Kept,
        examples={"running": Kept(result_bytes=None, output_bytes=4, progress=_PROGRESS)},
    ),
    NO_SUCH_JOB,
)
async def read_artifacts(request: ApiRequest, id: str) -> Response:
    """Tell what a job has left so far: progress, and how many bytes of output and result."""
    kept = await request.store.artifacts.kept(id)
    if kept is None:
        raise absent("no such job")
    return json_response(kept)


@operation(
    "GET",
    "/jobs/{id}/result",
    Answer(
        200,
        "The result.",
        Stored,
        examples={"result": Stored(schema_version=1, bytes=b"{}")},
    ),
    PAYLOADS_KEPT_BACK,
    _nothing("result"),
    role=Role.ADMIN,
)
async def read_result(request: ApiRequest, id: str) -> Response:
    """Read what the attempt that succeeded published."""
    require_payloads(request)
    result = await request.store.artifacts.result(id)
    if result is None:
        raise absent("no result for job")
    return json_response(result)


@operation(
    "GET",
    "/jobs/{id}/output",
    Answer(
        200,
        "The newest output.",
        Output,
        examples={
            "output": Output(
                schema_version=1, bytes=b"half", fence=2, updated_at_ms=1_767_225_600_000
            )
        },
    ),
    PAYLOADS_KEPT_BACK,
    _nothing("output"),
    role=Role.ADMIN,
)
async def read_output(request: ApiRequest, id: str) -> Response:
    """Read what an attempt published while it ran.

    `fence` tells which attempt it was; a later one has a higher.
    """
    require_payloads(request)
    output = await request.store.artifacts.output(id)
    if output is None:
        raise absent("no output for job")
    return json_response(output)


@operation(
    "GET",
    "/jobs/{id}/progress",
    Answer(
        200,
        "The newest report of progress.",
        Progress,
        examples={"progress": _PROGRESS},
    ),
    _nothing("progress"),
)
async def read_progress(request: ApiRequest, id: str) -> Response:
    """Read how far an attempt said it had come."""
    progress = await request.store.artifacts.progress(id)
    if progress is None:
        raise absent("no progress for job")
    return json_response(progress)


@operation(
    "GET",
    "/jobs/{id}/checkpoint",
    Answer(200, "The steps.", Checkpoint, examples={"steps": _STEPS}),
    NO_SUCH_JOB,
)
async def read_checkpoint(request: ApiRequest, id: str) -> Response:
    """Read where a job of several steps stands.

    All is empty for a job without steps. `cursor` is null for whoever does not get to
    see payloads.
    """
    checkpoint = await request.store.artifacts.checkpoint(id)
    if checkpoint is None:
        raise absent("no such job")
    if not request.sees_payloads:
        checkpoint = msgspec.structs.replace(checkpoint, cursor=None)
    return json_response(checkpoint)
