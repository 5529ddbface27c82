"""Why a job does not run."""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.errors import absent
from headgate.api.jobs import NO_SUCH_JOB
from headgate.api.operations import Answer, operation
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.model.admission import Admission


class AdmissionQuery(msgspec.Struct, kw_only=True, frozen=True):
    advice: Annotated[
        bool, Meta(description="Say too what no rule forbids and still keeps a job waiting.")
    ] = False


@operation(
    "GET",
    "/jobs/{id}/admission",
    Answer(
        200,
        "Whether it may run now, and what keeps it.",
        Admission,
        examples={
            "free": Admission(
                admissible=True,
                blocked_by=None,
                detail={
                    "state": "available",
                    "position_in_partition": "0",
                    "partition_deficit": "0",
                },
                estimated_admission_ms=0,
            ),
            "blocked": Admission(
                admissible=False,
                blocked_by="rate_class",
                detail={
                    "state": "available",
                    "rate_class": "smtp",
                    "weight": "1",
                    "tokens_ahead_in_class": "12",
                    "tokens_available": "0",
                },
                estimated_admission_ms=7_800,
                advice=["no live worker polls queue mail"],
            ),
        },
    ),
    NO_SUCH_JOB,
)
async def explain_admission(request: ApiRequest, id: str, query: AdmissionQuery) -> Response:
    """Explain why a job runs or does not.

    The rules of the gate in their order: `queue_paused`, `schedule`, `quarantine`, `rate_class`,
    `concurrency_limit`. `blocked_by` null with `admissible` false: the job is not waiting at all.
    `estimated_admission_ms` null: what keeps it does not pass by itself.
    """
    admission = await request.store.policies.explain_admission(id, advice=query.advice)
    if admission is None:
        raise absent("no such job")
    return json_response(admission)
