"""One measurement in a process of its own: `python -m bench.peers.child SIDE WORK DSN JOBS`."""

import asyncio
import logging
import resource
import sys
import time

import msgspec
import uvloop

from bench.peers.side import Side

BATCH = 100
PRODUCERS = 8


class Measurement(msgspec.Struct):
    jobs: int
    seconds: float
    cpu_seconds: float


def side_named(name: str) -> Side:
    if name == "headgate":
        from bench.peers.headgate_side import HeadgateSide

        return HeadgateSide()
    if name == "pgqueuer":
        from bench.peers.pgqueuer_side import PgqueuerSide

        return PgqueuerSide()
    from bench.peers.procrastinate_side import ProcrastinateSide

    return ProcrastinateSide()


async def _enqueue_one_by_one(side: Side, jobs: int) -> None:
    for _ in range(jobs):
        await side.enqueue()


async def _enqueue_concurrently(side: Side, jobs: int) -> None:
    await asyncio.gather(*(_enqueue_one_by_one(side, jobs // PRODUCERS) for _ in range(PRODUCERS)))


async def _enqueue_in_batches(side: Side, jobs: int) -> None:
    for _ in range(jobs // BATCH):
        await side.enqueue_batch(BATCH)


async def measure(name: str, work: str, dsn: str, jobs: int) -> Measurement:
    side = side_named(name)
    concurrency = int(work.removeprefix("drain_")) if work.startswith("drain_") else 10
    await side.install(dsn)
    await side.open(dsn, concurrency)
    try:
        if work.startswith("drain_"):
            for _ in range(jobs // 1000):
                await side.enqueue_batch(1000)
        else:
            # The first use of a statement and of a connection pays for its preparation.
            await _enqueue_concurrently(side, PRODUCERS)
            await _enqueue_in_batches(side, BATCH)
        started, cpu = time.perf_counter(), _own_cpu()
        # The server's share is counted from this line to the next by the parent.
        _say("start")
        if work == "enqueue":
            await _enqueue_one_by_one(side, jobs)
        elif work == "enqueue_concurrent":
            await _enqueue_concurrently(side, jobs)
        elif work == "enqueue_batch":
            await _enqueue_in_batches(side, jobs)
        else:
            await side.drain(jobs, concurrency)
        return Measurement(jobs, time.perf_counter() - started, _own_cpu() - cpu)
    finally:
        await side.close()


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _say(line: str) -> None:
    print(line, flush=True)
    # The parent reads the server's clock before it lets us go on.
    sys.stdin.readline()


def main() -> None:
    logging.disable(logging.WARNING)
    name, work, dsn, jobs = sys.argv[1:]
    measured = uvloop.run(measure(name, work, dsn, int(jobs)))
    print(msgspec.json.encode(measured).decode(), flush=True)


if __name__ == "__main__":
    main()
