"""The quarantine: what is held back because it killed its workers."""

from typing import Final

from starlette.responses import Response

from headgate.api.errors import DuplicateBody
from headgate.api.operations import Answer, operation, refused
from headgate.api.paging import BAD_LIMIT, PageQuery, page_answer, page_response
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response
from headgate.model.access import Role
from headgate.model.quarantine import QuarantinedFingerprint

_EXAMPLE: Final = QuarantinedFingerprint(
    fingerprint="8b50ed3c62f252c8bb4b67aedb280f0d",
    kind="report:daily",
    crash_count=3,
    quarantined_at_ms=1_767_225_600_000,
    reason="3 workers in a row died with it",
)


@operation(
    "GET",
    "/quarantine",
    page_answer(
        "A page of the fingerprints, newest first.",
        QuarantinedFingerprint,
        entries=[_EXAMPLE],
        links={
            "release": ("release_fingerprint", {"fingerprint": "$response.body#/0/fingerprint"})
        },
    ),
    BAD_LIMIT,
)
async def list_quarantine(request: ApiRequest, query: PageQuery) -> Response:
    """List quarantined fingerprints.

    New jobs of them are answered 423, waiting ones do not run.
    """
    return page_response(await request.store.quarantine.entries(query.page))


@operation(
    "DELETE",
    "/quarantine/{fingerprint}",
    Answer(
        204,
        "Released.",
        headers={"x-released-jobs": "How many jobs are available again."},
    ),
    refused(
        404,
        "It is not quarantined, and no job of it is.",
        "not found: fingerprint 8b50ed3c62f252c8bb4b67aedb280f0d is not quarantined",
    ),
    Answer(
        409,
        "Other jobs have the unique keys of all that would be released; nothing was changed.",
        DuplicateBody,
        examples={
            "taken": DuplicateBody(
                error="duplicate unique key", existing_id="mail-18", replaced=False
            )
        },
    ),
    role=Role.OPERATOR,
)
async def release_fingerprint(request: ApiRequest, fingerprint: str) -> Response:
    """Release a fingerprint.

    Its quarantined jobs are available again with their crashes forgiven, and new ones may come in.
    A job whose unique key was taken meanwhile stays, for a later release.
    """
    release = await request.store.quarantine.release(fingerprint)
    return empty_response(204, {"x-released-jobs": str(release.released)})
