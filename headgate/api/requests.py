"""The request as handlers see it: Starlette's, with the store and the configuration at hand."""

import re
from typing import Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from headgate.api.config import ApiConfig
from headgate.api.errors import Refusal
from headgate.api.operations import Operation
from headgate.api.schema_check import SchemaCheck
from headgate.store.store import Store

_VISIBLE: Final = re.compile(rb"[!-~]{1,255}")


class Api:
    """What all requests of one application share."""

    def __init__(self, store: Store, config: ApiConfig, operations: tuple[Operation, ...]) -> None:
        self.store: Final = store
        self.config: Final = config
        self.operations: Final = operations
        self.schema: Final = SchemaCheck(store)


class ApiRequest(Request):
    """A request on its way to a handler. `idempotency_key` is "" for a method that needs none."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, api: Api, idempotency_key: str
    ) -> None:
        super().__init__(scope, receive, send)
        self.store: Final = api.store
        self.config: Final = api.config
        self.operations: Final = api.operations
        self.idempotency_key: Final = idempotency_key


def idempotency_key(scope: Scope) -> str:
    """The key of a mutating request; of several headers the first counts.

    Raises `Refusal` 400 when it is missing, empty, longer than 255 or not visible ASCII.
    """
    for name, value in scope["headers"]:
        if name == b"idempotency-key":
            if not value:
                break
            if _VISIBLE.fullmatch(value) is None:
                raise Refusal(400, "Idempotency-Key must be 1-255 visible ASCII characters")
            key: str = value.decode("ascii")
            return key
    raise Refusal(400, "Idempotency-Key header is required on every mutating request")
