"""`python -m bench.events [--quick] [--json]`: many who follow events, some of whom never read.

1,000 clients (with `--quick` 200) follow `/events` of one process, one in twenty of them takes
nothing, and 2,000 jobs a second come in, in batches of 100 over ten queues each, for a minute (ten
seconds). Told are how long after the beginning of an enqueue a frame with its queues was there, of
the queues of a frame the one that waited longest; how many queues were not heard of within a
second; and what the process had in memory. Anything late, or memory that grows by a tenth after the
first third of the time, makes the exit status 1. `own_lag_ms` is what this process itself was late
at worst: where that is much, the machine was too busy to tell.
"""

import asyncio
import socket
import statistics
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from bench.report import arguments
from bench.server import bench_server, cpu_seconds_of
from headgate.api.config import ApiConfig
from headgate.api.events import QueueActivity
from headgate.model.envelope import Envelope
from headgate.store import migration
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.contract.serving import Address, address_of, starting
from tests.forks import Fork, anew

CONFIG: Final = ApiConfig(max_event_streams=2_000)

_LATE_MS: Final = 1_000
_FRAME_LIFE_S: Final = 2
_TICK_S: Final = 0.05
_BATCH: Final = 100
_BATCHES_PER_S: Final = 20
_QUEUES: Final = 1_000
_QUEUES_OF_A_BATCH: Final = 10
_REQUEST: Final = b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
_DATA: Final = b"event: queue_activity\ndata: "
_decode: Final = msgspec.json.Decoder(QueueActivity).decode


class Report(msgspec.Struct):
    """Times in milliseconds, memory in megabytes."""

    clients: int
    silent: int
    jobs_per_s: float
    frames: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    late: int
    own_lag_ms: float
    rss_start_mb: float
    rss_third_mb: float
    rss_end_mb: float
    cpu_of_api: float


class Frame(msgspec.Struct):
    """What one frame says, looked at once for all who get it."""

    queues: int
    oldest: float
    known_until: float


class Sent:
    """When each queue was last enqueued to; a queue comes again long after everybody has heard."""

    def __init__(self) -> None:
        self.queues = 0
        self.heard = 0
        self.late = 0
        self.waits: list[float] = []
        self._at: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._frames: dict[bytes, Frame] = {}

    def begin(self, queues: list[str]) -> None:
        now = time.perf_counter()
        self.queues += len(queues)
        self._at |= dict.fromkeys(queues, now)

    def hear(self, body: bytes) -> None:
        now = time.perf_counter()
        frame = self._frames.get(body)
        if frame is None or frame.known_until < now:
            times = {queue: self._at[queue] for queue in _decode(body).queues}
            news = sum(self._told.get(queue) != at for queue, at in times.items())
            frame = Frame(news, min(times.values(), default=now), now + _FRAME_LIFE_S)
            self._told |= times
            self._frames[body] = frame
        wait = (now - frame.oldest) * 1000
        self.waits.append(wait)
        self.heard += frame.queues
        if wait > _LATE_MS:
            self.late += frame.queues


class Follower(asyncio.Protocol):
    """A client; one that is `silent` takes nothing from its socket."""

    def __init__(self, sent: Sent, *, silent: bool) -> None:
        self._sent = sent
        self._silent = silent
        self._rest = b""
        self.open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        transport.write(_REQUEST)
        if self._silent:
            transport.pause_reading()
            self.open.set_result(None)

    def data_received(self, data: bytes) -> None:
        if not self.open.done():
            self.open.set_result(None)
        *frames, self._rest = (self._rest + data).split(b"\n\n")
        for frame in frames:
            _, found, body = frame.partition(_DATA)
            if found:
                self._sent.hear(body)


async def connect(address: Address, sent: Sent, *, silent: bool) -> asyncio.BaseTransport:
    connection = socket.socket()
    if silent:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, address)
    transport, follower = await loop.create_connection(
        lambda: Follower(sent, silent=silent), sock=connection
    )
    await follower.open
    return transport


async def produce(store: Store, sent: Sent, seconds: int) -> None:
    """Enqueues at a steady rate, whether or not the batches before are in."""
    numbers = count()
    begun = time.perf_counter()
    running: set[asyncio.Task[None]] = set()

    async def enqueue() -> None:
        queues = [
            f"queue-of-some-team-{next(numbers) % _QUEUES:04}" for _ in range(_QUEUES_OF_A_BATCH)
        ]
        jobs = [
            Envelope(kind="bench", queue=queue)
            for queue in queues
            for _ in range(_BATCH // _QUEUES_OF_A_BATCH)
        ]
        sent.begin(queues)
        await store.producer.enqueue(jobs)

    for number in range(seconds * _BATCHES_PER_S):
        await asyncio.sleep(begun + number / _BATCHES_PER_S - time.perf_counter())
        task = asyncio.create_task(enqueue())
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)


async def weigh(process: Fork, memory: list[float], lags: list[float]) -> None:
    while True:
        memory.append(rss_mb(process.pid))
        for _ in range(10):
            begun = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            lags.append((time.perf_counter() - begun - _TICK_S) * 1000)


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def follow(dsn: str, process: Fork, *, clients: int, seconds: int) -> Report:
    address = address_of(process)
    sent = Sent()
    silent = clients // 20
    transports = [await connect(address, sent, silent=number < silent) for number in range(clients)]
    memory: list[float] = []
    lags: list[float] = []
    async with Store(StoreSettings(dsn=dsn)) as store:
        await asyncio.sleep(1)
        weighing = asyncio.create_task(weigh(process, memory, lags))
        begun, cpu = time.perf_counter(), cpu_seconds_of(process.pid)
        await produce(store, sent, seconds)
        took, cpu = time.perf_counter() - begun, cpu_seconds_of(process.pid) - cpu
        await asyncio.sleep(_LATE_MS / 1000 + 0.5)
        weighing.cancel()
    for transport in transports:
        transport.close()
    waits = sorted(sent.waits)
    missing = sent.queues * (clients - silent) - sent.heard
    return Report(
        clients=clients,
        silent=silent,
        jobs_per_s=round(seconds * _BATCHES_PER_S * _BATCH / took),
        frames=len(waits),
        p50_ms=round(statistics.median(waits)),
        p99_ms=round(waits[len(waits) * 99 // 100]),
        worst_ms=round(waits[-1]),
        late=missing + sent.late,
        own_lag_ms=round(max(lags)),
        rss_start_mb=round(memory[0], 1),
        rss_third_mb=round(memory[len(memory) // 3], 1),
        rss_end_mb=round(memory[-1], 1),
        cpu_of_api=round(cpu / took, 2),
    )


def main() -> None:
    options = arguments(__doc__.splitlines()[0])
    clients, seconds = (200, 10) if options.quick else (1_000, 60)
    with (
        bench_server() as server,
        tempfile.TemporaryDirectory() as directory,
        starting(Path(directory), anew) as start,
    ):
        dsn = server.new_database()
        asyncio.run(migration.upgrade(dsn, "public"))
        process = start(dsn, "bench.events:CONFIG")
        report = uvloop.run(follow(dsn, process, clients=clients, seconds=seconds))
    if options.json:
        print(msgspec.json.encode(report).decode())
    else:
        for name, value in msgspec.structs.asdict(report).items():
            print(f"{name:14} {value:>12,}")
    sys.exit(report.late > 0 or report.rss_end_mb > 1.1 * report.rss_third_mb)


if __name__ == "__main__":
    main()
