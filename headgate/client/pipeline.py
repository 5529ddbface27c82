"""What every enqueue passes on its way to the store, in one order, wherever it comes from.

Middleware (standalone, of global plugins, of plugins for kinds), authorizer, circuit breaker, hooks
in the same order, store; then back through the middleware. The store itself is below all this:
duties and tests write to it directly.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeAlias

from msgspec import structs

from headgate.client.authorizer import (
    LIBRARY,
    Authorizer,
    EnqueueContext,
    allow_all,
    authorize,
)
from headgate.client.circuit_breaker import CircuitBreaker
from headgate.client.hooks import EnqueueHook, EnqueueSucceeded, outcome_of, tell
from headgate.client.middleware import EnqueueMiddleware, EnqueueMode, EnqueueRequest, Next
from headgate.client.plugins import EnqueuePlugin
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.job import Enqueued

Write: TypeAlias = Callable[[list[Envelope]], Awaitable[list[Enqueued]]]
"""The call to the store at the end of the pipeline."""


class EnqueuePipeline:
    """One arrangement of the stages; made once, and then only used."""

    def __init__(
        self,
        *,
        authorizer: Authorizer = allow_all,
        circuit_breaker: CircuitBreaker | None = None,
        middleware: Sequence[EnqueueMiddleware] = (),
        hooks: Sequence[EnqueueHook] = (),
        plugins: Sequence[EnqueuePlugin] = (),
    ) -> None:
        self._authorizer = authorizer
        self._breaker = circuit_breaker
        self._hooks = tuple(hooks)
        self._plugins = (
            *(plugin for plugin in plugins if plugin.kinds is None),
            *(plugin for plugin in plugins if plugin.kinds is not None),
        )
        self._middleware: tuple[tuple[EnqueueMiddleware, EnqueuePlugin | None], ...] = (
            *((each, None) for each in middleware),
            *((each, plugin) for plugin in self._plugins for each in plugin.middleware),
        )
        self._observed = bool(self._hooks) or any(plugin.hooks for plugin in self._plugins)
        self._plain = not (
            self._middleware
            or self._observed
            or circuit_breaker is not None
            or authorizer is not allow_all
        )

    async def enqueue(
        self,
        jobs: Sequence[Envelope],
        write: Write,
        *,
        context: EnqueueContext = LIBRARY,
        mode: EnqueueMode = EnqueueMode.DIRECT,
    ) -> list[Enqueued]:
        """Passes the jobs through all stages and has `write` write them; they stay as they are.

        Raises `EnqueueForbidden` before anything is written when one of the jobs is denied,
        `CircuitOpen` while the store is left alone, what a middleware raises, and what `write`
        does.
        """
        if self._plain:
            return await write(list(jobs))
        owned = [_copy(job) for job in jobs] if self._middleware else list(jobs)
        return await self._through(0, EnqueueRequest(context, mode, owned), write)

    def enqueue_blocking(
        self,
        jobs: Sequence[Envelope],
        write: Callable[[list[Envelope]], list[Enqueued]],
        *,
        context: EnqueueContext = LIBRARY,
    ) -> list[Enqueued]:
        """The same where nothing can be awaited. Raises `InvalidRequest` where a middleware would
        have to take part.
        """
        request = EnqueueRequest(context, EnqueueMode.TRANSACTIONAL, list(jobs))
        if any(plugin is None or plugin.concerns(jobs) for _, plugin in self._middleware):
            raise InvalidRequest("middleware needs an enqueue that is awaited")
        authorize(self._authorizer, request.jobs, context)
        with self._observing(request) as observation:
            observation.written = write(request.jobs)
        return observation.written

    def authorize(self, jobs: Sequence[Envelope], context: EnqueueContext = LIBRARY) -> None:
        """Asks the authorizer alone, for what will make such jobs later. Raises
        `EnqueueForbidden`.
        """
        authorize(self._authorizer, jobs, context)

    async def _through(
        self, position: int, request: EnqueueRequest, write: Write
    ) -> list[Enqueued]:
        """From the middleware at `position` on."""
        for place in range(position, len(self._middleware)):
            middleware, plugin = self._middleware[place]
            if plugin is None or plugin.concerns(request.jobs):
                return await middleware(request, self._next(place + 1, write))
        authorize(self._authorizer, request.jobs, request.context)
        return await self._write(request, write)

    def _next(self, position: int, write: Write) -> Next:
        return lambda request: self._through(position, request, write)

    async def _write(self, request: EnqueueRequest, write: Write) -> list[Enqueued]:
        with self._observing(request) as observation:
            observation.written = await write(request.jobs)
        return observation.written

    @contextmanager
    def _observing(self, request: EnqueueRequest) -> Iterator["_Observation"]:
        """One call to the store: permitted by the breaker, and told to the hooks."""
        permit = nullcontext() if self._breaker is None else self._breaker.permit()
        observation = _Observation()
        if not self._observed:
            with permit:
                yield observation
            return
        hooks = [
            *self._hooks,
            *(h for plugin in self._plugins if plugin.concerns(request.jobs) for h in plugin.hooks),
        ]
        begun = False
        try:
            with permit:
                begun = True
                tell((hook.on_begin for hook in hooks), request)
                yield observation
        except BaseException as error:
            if begun:
                tell((hook.on_end for hook in hooks), request, outcome_of(error))
            raise
        tell((hook.on_end for hook in hooks), request, EnqueueSucceeded(observation.written))


class _Observation:
    """What a call to the store has brought."""

    def __init__(self) -> None:
        self.written: list[Enqueued] = []


def _copy(job: Envelope) -> Envelope:
    return structs.replace(job, headers=dict(job.headers))
