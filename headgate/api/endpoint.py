"""What happens to a request between its route and its handler, in the order of the contract."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headgate.api.access import refuse_foreign_origin
from headgate.api.errors import Refusal
from headgate.api.operations import MUTATING, Operation
from headgate.api.replay import answer_once
from headgate.api.requests import Api, ApiRequest, idempotency_key
from headgate.api.responses import empty_response
from headgate.model.access import ANYBODY, Caller
from headgate.model.limits import check_characters

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class PathEndpoint:
    """The operations of one path as an ASGI callable.

    The order: who asks, read-only, origin, role, idempotency key, method, path parameters, query,
    body, schema of the database, handler. HEAD is answered by GET, without its body.
    """

    def __init__(self, operations: Iterable[Operation], api: Api) -> None:
        self._api = api
        self._operations = {operation.method: operation for operation in operations}
        self._public = all(operation.public for operation in self._operations.values())
        if "GET" in self._operations:
            self._operations["HEAD"] = self._operations["GET"]
        self._allow = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        operation = self._operations.get(method)
        caller = await self._admit(scope, operation)
        key = idempotency_key(scope) if method in MUTATING else ""
        if operation is None:
            await empty_response(405, {"allow": self._allow})(scope, receive, send)
            return
        request = ApiRequest(
            scope,
            receive,
            send,
            api=self._api,
            operation=operation,
            caller=caller,
            idempotency_key=key,
        )
        response = await self._handle(request, operation)
        if method == "HEAD":
            await _send_head(response, send)
        else:
            await response(scope, receive, send)

    async def _admit(self, scope: Scope, operation: Operation | None) -> Caller:
        """Who asks, if it is allowed to them. Raises `Refusal` 401 or 403."""
        caller = ANYBODY
        public = self._public if operation is None else operation.public
        if self._api.access is not None and not public:
            caller = await self._api.access.authenticate(scope)
            scope["state"]["identity"] = caller.subject
        if scope["method"] not in _READING:
            if self._api.config.read_only:
                raise Refusal(403, "read-only mode")
            refuse_foreign_origin(scope, self._api.config.allowed_origins)
        if operation is not None and not caller.may(*operation.roles):
            raise Refusal(403, "forbidden")
        return caller

    async def _handle(self, request: ApiRequest, operation: Operation) -> Response:
        path_parameters = request.scope["path_params"]
        arguments: dict[str, Any] = _path_arguments(operation, path_parameters)
        request.target = next(iter(arguments.values()), "")
        if operation.query is not None:
            arguments["query"] = operation.query.read(request.scope["query_string"])
        if operation.body is not None:
            request.content = await operation.body.receive(request)
            arguments["body"] = operation.body.decode(request.content)
        if operation.uses_store and not self._api.schema.passed:
            await self._api.schema.require()
        if operation.replays:
            return await answer_once(request, lambda: operation.handler(request, **arguments))
        return await operation.handler(request, **arguments)


def _path_arguments(operation: Operation, path_parameters: Mapping[str, str]) -> dict[str, str]:
    arguments = {name: path_parameters[name] for name in operation.path_parameters}
    for name, value in arguments.items():
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Refusal(400, "invalid path parameter") from None
        if operation.mutates:
            check_characters(name, value)
    return arguments


async def _send_head(response: Response, send: Send) -> None:
    # Not left to the server: a stream has no end, and it is not begun here.
    await send(
        {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": response.raw_headers,
        }
    )
    await send({"type": "http.response.body", "body": b""})
