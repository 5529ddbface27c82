"""A worker's claims beside a sweep: `python -m bench.duties.claimer DSN`, ended by a line on stdin.

Prints `start` when it has begun, and in the end a JSON list of [moment, milliseconds of a claim].
"""

import asyncio
import json
import sys
import threading
import time

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import Outcome
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

QUEUE = "claims"
_EACH = 5
_PAUSE_S = 0.01


async def claim(dsn: str) -> list[tuple[float, float]]:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
    measured: list[tuple[float, float]] = []
    async with await Store.open(StoreSettings(dsn=dsn)) as store:
        print("start", flush=True)
        while not over.is_set():
            await store.producer.enqueue([Envelope(kind="noop", queue=QUEUE) for _ in range(_EACH)])
            began = time.monotonic()
            claims = await store.gate.admit("claimer", (QUEUE,), _EACH, 30_000)
            measured.append((began, (time.monotonic() - began) * 1000))
            await store.leases.acknowledge(
                [
                    Acknowledgement(
                        lease=Lease(each.job_id, each.lease_id, each.fence),
                        outcome=Outcome.SUCCESS,
                    )
                    for each in claims
                ]
            )
            await asyncio.sleep(_PAUSE_S)
    return measured


if __name__ == "__main__":
    json.dump(asyncio.run(claim(sys.argv[1])), sys.stdout)
