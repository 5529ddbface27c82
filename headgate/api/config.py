"""How one instance of the control API is to behave."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec
from starlette.authentication import AuthenticationBackend

from headgate.client.authorizer import Authorizer, allow_all
from headgate.client.circuit_breaker import CircuitBreaker
from headgate.client.hooks import EnqueueHook
from headgate.client.middleware import EnqueueMiddleware
from headgate.client.pipeline import EnqueuePipeline
from headgate.client.plugins import EnqueuePlugin
from headgate.model.access import AccessToken, Identity
from headgate.model.errors import InvalidRequest
from headgate.model.job import Job

PayloadRevealer: TypeAlias = Callable[[Job, Identity | None], Awaitable[bytes]]
"""Opens the payload of a job for somebody. Raises `PermissionError` when it may not, `ValueError`
when it cannot, `OSError` when it cannot now.
"""


class ApiConfig(msgspec.Struct, kw_only=True, frozen=True):
    """Everything off and open unless it says otherwise. Raises `InvalidRequest` for what cannot be.

    - `read_only` refuses every mutation, whoever asks.
    - `console` false serves the API alone, without the web console at `/`.
    - `payloads` false never hands out what jobs carry, though it was asked for.
    - `tokens` are those that are let in; with `require_token` those of the database are enough.
      Either of them lets nobody else in, except whom `authentication` knows, which is asked first:
      the scopes `headgate:viewer`, `headgate:producer`, `headgate:operator` and `headgate:admin`
      are roles.
    - `allowed_origins` are the other sites whose pages may send mutations, as `https://host`.
    - `local_names_only` refuses requests to any name with a dot that is no address, for a server
      that asks nobody and must not be asked by pages of other sites.
    - `authorizer`, `circuit_breaker`, `middleware`, `hooks` and `plugins` stand between a request
      that enqueues and the store.
    - `revealer` opens encrypted payloads for admins, such as `PayloadEncryption(...).reveal`.
    - `max_event_streams` is how many may follow events at a time in this process;
      `event_heartbeat_ms` is how long a stream is silent at most.
    - `access_log` writes a line of JSON for each request to the logger `headgate.api.access`.
    """

    read_only: bool = False
    console: bool = True
    payloads: bool = True
    tokens: tuple[AccessToken, ...] = ()
    require_token: bool = False
    authentication: AuthenticationBackend | None = None
    allowed_origins: tuple[str, ...] = ()
    local_names_only: bool = False
    authorizer: Authorizer = allow_all
    circuit_breaker: CircuitBreaker | None = None
    middleware: tuple[EnqueueMiddleware, ...] = ()
    hooks: tuple[EnqueueHook, ...] = ()
    plugins: tuple[EnqueuePlugin, ...] = ()
    revealer: PayloadRevealer | None = None
    max_event_streams: int = 100
    event_heartbeat_ms: int = 15_000
    access_log: bool = False

    def __post_init__(self) -> None:
        for name in ("max_event_streams", "event_heartbeat_ms"):
            if getattr(self, name) < 1:
                raise InvalidRequest(f"{name} must be >= 1")

    @property
    def asks(self) -> bool:
        """Whether a request has to say who sends it."""
        return bool(self.tokens) or self.require_token or self.authentication is not None

    @property
    def takes_tokens(self) -> bool:
        return bool(self.tokens) or self.require_token

    def pipeline(self) -> EnqueuePipeline:
        """What an enqueue passes on its way to the store."""
        return EnqueuePipeline(
            authorizer=self.authorizer,
            circuit_breaker=self.circuit_breaker,
            middleware=self.middleware,
            hooks=self.hooks,
            plugins=self.plugins,
        )
