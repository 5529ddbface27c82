"""A client of somebody else's API, which allows so many units per second, whoever asks.

The limit is data, not code: `headgate rate-classes set vendor --limit 10 --window 1s`. It holds for
all workers together. A call is charged by its weight, and settled by what it really cost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from headgate import Headgate, JobContext, RateLimited

app = Headgate(name="vendor")


class Lookup(msgspec.Struct):
    addresses: list[str]


class TooManyRequests(Exception):
    """The vendor counts differently than we do."""

    def __init__(self, retry_after_ms: int) -> None:
        super().__init__(f"again in {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms


async def call_vendor(addresses: list[str]) -> int:
    """Stands for an HTTP call; answers with the units that it cost."""
    await asyncio.sleep(0.01)
    return len(set(addresses))


call: Callable[[list[str]], Awaitable[int]] = call_vendor


@app.task("vendor:lookup", queue="lookups", rate_class="vendor", retention=timedelta(hours=1))
async def lookup(ctx: JobContext, asked: Lookup) -> None:
    try:
        cost = await call(asked.addresses)
    except TooManyRequests as refusal:
        # It costs no attempt, and what was charged in advance comes back.
        ctx.report_actual_weight(0)
        raise RateLimited(after_ms=refusal.retry_after_ms) from None
    ctx.report_actual_weight(cost)


async def ask(addresses: list[str]) -> None:
    """Enqueues one call, which is charged a unit per address until it is known better."""
    await lookup.enqueue(Lookup(addresses), weight=max(1, len(addresses)))


async def main() -> None:
    async with app:
        for number in range(100):
            await ask([f"street {number}", f"street {number + 1}"])


if __name__ == "__main__":
    asyncio.run(main())
