"""Plugins: middleware and hooks that belong together, for all jobs or for some kinds."""

from collections.abc import Iterable, Sequence

from headgate.client.hooks import EnqueueHook
from headgate.client.middleware import EnqueueMiddleware
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.kinds import check_kind


class EnqueuePlugin:
    """A named bundle. With `kinds` it takes part when any job of a batch is of one of them, and
    sees the whole batch then; whether it does is looked at anew wherever its turn comes.

    Raises `InvalidRequest` for an empty name, no kinds at all, and a kind that breaks the rule.
    """

    def __init__(
        self,
        name: str,
        *,
        middleware: Sequence[EnqueueMiddleware] = (),
        hooks: Sequence[EnqueueHook] = (),
        kinds: Iterable[str] | None = None,
    ) -> None:
        if not name:
            raise InvalidRequest("plugin name must not be empty")
        self.name = name
        self.middleware = tuple(middleware)
        self.hooks = tuple(hooks)
        self.kinds = None if kinds is None else frozenset(kinds)
        if self.kinds is not None:
            if not self.kinds:
                raise InvalidRequest(f"plugin {name}: kinds must not be empty")
            for kind in self.kinds:
                check_kind(kind)

    def concerns(self, jobs: Iterable[Envelope]) -> bool:
        """Whether it takes part in an enqueue of these jobs."""
        return self.kinds is None or any(job.kind in self.kinds for job in jobs)
