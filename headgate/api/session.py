"""Who asks, as the API sees it: for clients that show only what is allowed."""

import msgspec
from starlette.responses import Response

from headgate.api.operations import PREFIX, Answer, operation
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.model.access import Role


class Session(msgspec.Struct, kw_only=True, frozen=True):
    """The caller and what is allowed to them.

    `identity` is empty where nobody is asked who they are. `roles` are all that are granted, those
    that others include too. With `read_only` nobody may change anything; `payloads` tells whether
    this caller gets to see what jobs carry, `reveals` whether they can have it decrypted here,
    `workflows` whether this API has some.
    """

    identity: str
    roles: list[Role]
    read_only: bool
    payloads: bool
    reveals: bool
    workflows: bool


@operation(
    "GET",
    "/session",
    Answer(
        200,
        "The caller.",
        Session,
        examples={
            "operator": Session(
                identity="ada",
                roles=[Role.VIEWER, Role.PRODUCER, Role.OPERATOR],
                read_only=False,
                payloads=False,
                reveals=False,
                workflows=False,
            )
        },
    ),
    role=(Role.VIEWER, Role.PRODUCER),
    uses_store=False,
)
async def read_session(request: ApiRequest) -> Response:
    """Tell who asks and what is allowed to them."""
    caller = request.caller
    return json_response(
        Session(
            identity=caller.subject,
            roles=[role for role in Role if role in caller.roles],
            read_only=request.config.read_only,
            payloads=request.sees_payloads,
            reveals=request.sees_payloads and request.config.revealer is not None,
            workflows=any(each.path == f"{PREFIX}/workflows" for each in request.operations),
        )
    )
