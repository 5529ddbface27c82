"""What happens to a request between its route and its handler, in the order of the contract."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headgate.api.errors import Refusal
from headgate.api.operations import MUTATING, Operation
from headgate.api.requests import Api, ApiRequest, idempotency_key
from headgate.api.responses import empty_response
from headgate.model.limits import check_characters

_READ_ONLY_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class PathEndpoint:
    """The operations of one path as an ASGI callable.

    The order: read-only, idempotency key, method, path parameters, query, body, schema of the
    database, handler. HEAD is answered by GET, without its body.
    """

    def __init__(self, operations: Iterable[Operation], api: Api) -> None:
        self._api = api
        self._operations = {operation.method: operation for operation in operations}
        if "GET" in self._operations:
            self._operations["HEAD"] = self._operations["GET"]
        self._allow = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if self._api.config.read_only and method not in _READ_ONLY_METHODS:
            raise Refusal(403, "read-only mode")
        key = idempotency_key(scope) if method in MUTATING else ""
        operation = self._operations.get(method)
        if operation is None:
            await empty_response(405, {"allow": self._allow})(scope, receive, send)
            return
        request = ApiRequest(scope, receive, send, self._api, key)
        arguments: dict[str, Any] = _path_arguments(operation, scope["path_params"])
        if operation.query is not None:
            arguments["query"] = operation.query.read(scope["query_string"])
        if operation.body is not None:
            arguments["body"] = await operation.body.read(request)
        if operation.uses_store and not self._api.schema.passed:
            await self._api.schema.require()
        response = await operation.handler(request, **arguments)
        if method == "HEAD":
            await _send_head(response, send)
        else:
            await response(scope, receive, send)


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
