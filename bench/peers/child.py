"""One part of a measurement in a process of its own: `python -m bench.peers.child SIDE DSN PART`.

It says "ready", waits for a line, does its part and says what came of it, as JSON. A worker never
does: it works until it is killed. The others keep their connections until then, as closing them
costs a server more than a small batch.
"""

import asyncio
import logging
import resource
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from bench.peers.side import Side, side_named
from bench.peers.tally import Tally

BATCH = 100
PRODUCERS = 8


class Fill(msgspec.Struct, tag=True):
    """Makes the schema, and enqueues jobs for others to run."""

    jobs: int


class Produce(msgspec.Struct, tag=True):
    """Enqueues as fast as it goes: one by one, by several at a time, or in batches."""

    way: str
    jobs: int


class Pace(msgspec.Struct, tag=True):
    """Enqueues at a steady rate; each job's number is the instant at which its enqueue began."""

    jobs: int
    per_second: float


class Work(msgspec.Struct, tag=True):
    """Runs a worker that counts in a tally of this many jobs."""

    tally: str
    jobs: int
    concurrency: int


class Measurement(msgspec.Struct):
    seconds: float
    cpu_seconds: float


Part = Fill | Produce | Pace | Work


async def _one_by_one(side: Side, jobs: int) -> None:
    for number in range(jobs):
        await side.enqueue(number)


async def _concurrently(side: Side, jobs: int) -> None:
    await asyncio.gather(*(_one_by_one(side, jobs // PRODUCERS) for _ in range(PRODUCERS)))


async def _in_batches(side: Side, jobs: int, size: int = BATCH) -> None:
    for _ in range(jobs // size):
        await side.enqueue_batch(size)


WAYS = {
    "enqueue": _one_by_one,
    "enqueue_concurrent": _concurrently,
    "enqueue_batch": _in_batches,
}


async def _paced(side: Side, jobs: int, per_second: float) -> None:
    enqueuing = set()
    begun = time.monotonic()
    for position in range(jobs):
        await asyncio.sleep(begun + position / per_second - time.monotonic())
        # A slow answer must not hold up the jobs behind it.
        enqueuing.add(asyncio.create_task(side.enqueue(time.monotonic_ns())))
    await asyncio.gather(*enqueuing)


async def take_part(side: Side, dsn: str, part: Part) -> None:
    if isinstance(part, Fill | Produce):
        await side.install(dsn)
    await side.open(dsn)
    try:
        if isinstance(part, Produce):
            # The first use of a statement and of a connection pays for its preparation.
            await _concurrently(side, PRODUCERS)
            await _in_batches(side, BATCH)
        started, cpu = _begin()
        match part:
            case Fill(jobs=jobs):
                await _in_batches(side, jobs, 1_000)
            case Produce(way=way, jobs=jobs):
                await WAYS[way](side, jobs)
            case Pace(jobs=jobs, per_second=per_second):
                await _paced(side, jobs, per_second)
            case Work(tally=tally, jobs=jobs, concurrency=concurrency):
                await side.work(concurrency, Tally(Path(tally), jobs).count)
        _say(Measurement(time.perf_counter() - started, _own_cpu() - cpu))
    finally:
        await side.close()


def _begin() -> tuple[float, float]:
    print("ready", flush=True)
    sys.stdin.readline()
    return time.perf_counter(), _own_cpu()


def _say(measured: Measurement) -> None:
    print(msgspec.json.encode(measured).decode(), flush=True)
    sys.stdin.readline()


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    logging.disable(logging.WARNING)
    name, dsn, part = sys.argv[1:]
    uvloop.run(take_part(side_named(name), dsn, msgspec.json.decode(part, type=Part)))


if __name__ == "__main__":
    main()
