"""What every queue under comparison can do here."""

from collections.abc import Callable
from typing import Protocol

import msgspec

Handled = Callable[[int], None]
"""What a no-op job does: it tells the number that it was enqueued with."""


class Welcome(msgspec.Struct):
    """The payload of every job."""

    number: int
    template: str = "welcome"


decode = msgspec.json.Decoder(Welcome).decode


class Side(Protocol):
    """One queue, used as its documentation says, on a database of its own."""

    async def install(self, dsn: str) -> None:
        """Creates the schema."""

    async def open(self, dsn: str) -> None:
        """Connects, as an application would."""

    async def close(self) -> None: ...

    async def enqueue(self, number: int) -> None:
        """Enqueues one no-op job."""

    async def enqueue_batch(self, size: int) -> None:
        """Enqueues this many no-op jobs at once, each with a payload of its own."""

    async def work(self, concurrency: int, handled: Handled) -> None:
        """Runs a worker until cancelled. Its handler calls `handled`, and does nothing else."""


def side_named(name: str) -> Side:
    """Only the library that is asked for is imported."""
    match name:
        case "headgate":
            from bench.peers.headgate_side import HeadgateSide

            return HeadgateSide()
        case "pgqueuer":
            from bench.peers.pgqueuer_side import PgqueuerSide

            return PgqueuerSide()
        case "procrastinate":
            from bench.peers.procrastinate_side import ProcrastinateSide

            return ProcrastinateSide()
        case _:
            from bench.peers.chancy_side import ChancySide

            return ChancySide()


PEERS = ("chancy", "pgqueuer", "procrastinate")
SIDES = ("headgate", *PEERS)
