"""Whether the database holds a schema that this code may work with; asked until it is known."""

import asyncio

from headgate.model.errors import StoreUnavailable
from headgate.store.store import Store


class SchemaCheck:
    """Keeps requests off a schema that nobody has looked at yet.

    A process may start while its database is away, so the check waits for the first request that
    finds it. Once passed it costs nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._attempt: asyncio.Task[None] | None = None
        self.passed = False

    async def require(self) -> None:
        """Raises `SchemaMissing` or `SchemaIncompatible`.

        An unreachable database is no reason to refuse here: the handler judges the request first,
        and then meets the same outage.
        """
        if self.passed:
            return
        # All requests that wait share one attempt: a dead host costs each of them one time limit.
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.create_task(self._store.check_schema())
        try:
            await asyncio.shield(self._attempt)
        except StoreUnavailable:
            return
        self.passed = True
