"""What every queue under comparison can do here."""

from typing import Protocol

PAYLOAD = b'{"user": 4711, "template": "welcome"}'


class Side(Protocol):
    """One queue, opened on a database of its own."""

    async def install(self, dsn: str) -> None:
        """Creates the schema."""

    async def open(self, dsn: str, concurrency: int) -> None:
        """Connects, as an application would."""

    async def close(self) -> None: ...

    async def enqueue(self) -> None:
        """Enqueues one no-op job."""

    async def enqueue_batch(self, size: int) -> None:
        """Enqueues this many no-op jobs at once."""

    async def drain(self, jobs: int, concurrency: int) -> None:
        """Runs a worker until this many jobs are done and reported, then stops it."""
