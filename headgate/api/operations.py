"""One operation of the control API, declared where its handler stands.

    @operation("GET", "/jobs/{id}", Answer(200, "The job.", Job), Answer(404, "...", ErrorBody))
    async def read_job(request: ApiRequest, id: str, query: ReadJob) -> Response:
        \"\"\"Read one job.\"\"\"

The signature says what is read before the handler runs: `query` and `body` by their structs, every
other parameter from the path. Router and OpenAPI document are both made from these declarations.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

from headgate.api.body import MAX_BODY_BYTES, BodyReader
from headgate.api.errors import ErrorBody
from headgate.api.query import QueryReader
from headgate.model.access import Role

PREFIX: Final = "/api/v1"
MUTATING: Final = frozenset({"POST", "PUT", "DELETE"})
REPLAYED: Final = "idempotency-replayed"
"""The header of an answer that is given again."""

ANYONE: Final = tuple(Role)
"""Instead of roles, for what is answered without asking who asks."""

_PARAMETER: Final = re.compile(r"\{(\w+)\}")

Links = Mapping[str, tuple[str, Mapping[str, str]]]
"""Where the contents of an answer lead: a name, the operation, and the sources of its path
parameters.
"""

Handler = Callable[..., Awaitable[Response]]


class Answer(msgspec.Struct, frozen=True):
    """One answer of an operation as the document shows it; `body` None means an empty one.

    An answer with a `name` is shared by many operations and stands in the document once.
    """

    status: int
    description: str
    body: Any = None
    media_type: str = "application/json"
    headers: Mapping[str, str] = {}
    examples: Mapping[str, Any] = {}
    links: Links = {}
    name: str = ""


def refused(
    status: int,
    description: str,
    *errors: str,
    headers: Mapping[str, str] | None = None,
    name: str = "",
) -> Answer:
    """The answer to a request that is turned down in one of the words of `errors`."""
    return Answer(
        status,
        description,
        ErrorBody,
        headers=headers or {},
        examples={error: ErrorBody(error=error) for error in errors},
        name=name,
    )


class Operation:
    """A method on a path, its handler, and everything that is read before the handler runs."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        answers: tuple[Answer, ...],
        *,
        roles: tuple[Role, ...],
        prefix: str,
        uses_store: bool,
        replays: bool,
        max_body_bytes: int,
    ) -> None:
        self.method: Final = method
        self.path: Final = prefix + path
        self.handler: Final = handler
        self.answers: Final = answers
        self.roles: Final = roles
        self.public: Final = roles is ANYONE
        self.uses_store: Final = uses_store
        self.replays: Final = replays and self.mutates
        self.name: Final = handler.__name__
        self.subject: Final = handler.__module__.rpartition(".")[2]
        self.path_parameters: Final = tuple(_PARAMETER.findall(self.path))
        arguments = dict(list(inspect.signature(handler).parameters.items())[1:])
        query = arguments.pop("query", None)
        body = arguments.pop("body", None)
        if tuple(arguments) != self.path_parameters:
            raise TypeError(f"{self.name} does not take the parameters of {self.path}")
        self.query_type: Final[type[msgspec.Struct] | None] = (
            None if query is None else query.annotation
        )
        self.body_type: Final[type[msgspec.Struct] | None] = (
            None if body is None else body.annotation
        )
        self.query: Final = None if self.query_type is None else QueryReader(self.query_type)
        self.body: Final = (
            None if self.body_type is None else BodyReader(self.body_type, max_body_bytes)
        )

    @property
    def mutates(self) -> bool:
        return self.method in MUTATING


def operation(
    method: str,
    path: str,
    *answers: Answer,
    role: Role | tuple[Role, ...] | None = None,
    prefix: str = PREFIX,
    uses_store: bool = True,
    replays: bool = True,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Callable[[Handler], Operation]:
    """Declares the decorated function as the handler of `method` on `path` below `prefix`.

    `answers` are those of this operation alone; what every route of its kind may answer, the
    document adds by itself. `uses_store` false: works without a database, whatever its schema.

    `role` is what a caller must have, or one of several; without it a GET is for viewers and
    everything else for admins. A mutation runs in one transaction with the record of its
    Idempotency-Key and its entry in the audit trail, and its answer is replayed; its handler may
    run twice when the transaction lost a race. With `replays` false it sees to repetitions itself.
    """
    if role is None:
        role = Role.VIEWER if method == "GET" else Role.ADMIN
    roles = role if isinstance(role, tuple) else (role,)

    def declare(handler: Handler) -> Operation:
        return Operation(
            method,
            path,
            handler,
            answers,
            roles=roles,
            prefix=prefix,
            uses_store=uses_store,
            replays=replays,
            max_body_bytes=max_body_bytes,
        )

    return declare
