"""The request as handlers see it: Starlette's, with what the application shares and who asks."""

import re
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from headgate.api.access import Access
from headgate.api.broadcast import Broadcaster
from headgate.api.config import ApiConfig
from headgate.api.errors import Refusal
from headgate.api.operations import Operation
from headgate.api.schema_check import SchemaCheck
from headgate.api.tokens import TokenDirectory
from headgate.client.authorizer import EnqueueContext, Source
from headgate.client.pipeline import Write
from headgate.model.access import Caller, Role
from headgate.model.envelope import Envelope
from headgate.model.job import Enqueued, RequestKey
from headgate.store.store import Store

_VISIBLE: Final = re.compile(rb"[!-~]{1,255}")


class Api:
    """What all requests of one application share."""

    def __init__(self, store: Store, config: ApiConfig, operations: tuple[Operation, ...]) -> None:
        self.store: Final = store
        self.config: Final = config
        self.operations: Final = operations
        self.schema: Final = SchemaCheck(store)
        self.pipeline: Final = config.pipeline()
        tokens = TokenDirectory(config.tokens, store.access_tokens) if config.takes_tokens else None
        self.access: Final = Access(tokens, config.authentication) if config.asks else None
        self.broadcaster: Final = Broadcaster(store.listener, config.max_event_streams)


class ApiRequest(Request):
    """A request on its way to a handler.

    `store` is that of the application or, while a mutation is carried out, the same inside its
    transaction. `idempotency_key` is "" for a method that needs none, `content` the body as it was
    sent, once it is read. `target` is what the audit trail names.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        api: Api,
        operation: Operation,
        caller: Caller,
        idempotency_key: str,
    ) -> None:
        super().__init__(scope, receive, send)
        self.api: Final = api
        self.config: Final = api.config
        self.operation: Final = operation
        self.caller: Final = caller
        self.idempotency_key: Final = idempotency_key
        self.store = api.store
        self.content = b""
        self.target = ""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Every operation of the application."""
        return self.api.operations

    @property
    def sees_payloads(self) -> bool:
        """Whether what jobs carry is handed out: for admins, unless this instance keeps it back."""
        return self.config.payloads and self.caller.may(Role.ADMIN)

    def authorize(self, jobs: Sequence[Envelope]) -> None:
        """Raises `EnqueueForbidden` when the caller may not enqueue such jobs."""
        self.api.pipeline.authorize(jobs, self._enqueue_context)

    async def enqueue(
        self, jobs: Sequence[Envelope], *, key: RequestKey | None = None
    ) -> list[Enqueued]:
        """Enqueues through the pipeline, in a transaction of its own. Raises what that does."""
        return await self.enqueue_by(
            lambda owned: self.store.producer.enqueue(owned, request=key), jobs
        )

    async def enqueue_by(self, write: Write, jobs: Sequence[Envelope]) -> list[Enqueued]:
        """The same with another last step."""
        return await self.api.pipeline.enqueue(jobs, write, context=self._enqueue_context)

    @property
    def _enqueue_context(self) -> EnqueueContext:
        return EnqueueContext(Source.HTTP, self.caller.identity)


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
