"""Batches through the producer beside the same rows through one bare insert."""

import time
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from bench.report import Figure, compare
from headgate.model.envelope import Envelope, prepare
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

PAYLOAD: Final = b'{"user": 4711, "template": "welcome"}'
SIZES: Final = (100, 1_000)

TABLES: Final = {
    "primary key alone": (
        "CREATE TABLE bare (LIKE headgate_job INCLUDING DEFAULTS INCLUDING CONSTRAINTS"
        " INCLUDING STORAGE, PRIMARY KEY (id)) WITH (fillfactor = 90)"
    ),
    "our indexes": ("CREATE TABLE bare (LIKE headgate_job INCLUDING ALL) WITH (fillfactor = 90)"),
}

_INSERT: Final = """
INSERT INTO bare (ulid, kind, payload, queue, fingerprint, enqueued_at_ms, scheduled_at_ms)
SELECT ulid, kind, payload, queue, fingerprint, now_ms, now_ms
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[])
  AS given (ulid, kind, payload, queue, fingerprint),
  (SELECT (extract(epoch from clock_timestamp()) * 1000)::bigint AS now_ms) AS clock
"""


async def compare_enqueues(dsn: str, *, quick: bool) -> list[Figure]:
    figures = []
    async with Store(StoreSettings(dsn=dsn)) as store:
        bare = await asyncpg.connect(dsn, server_settings={"jit": "off"})
        try:
            for table, create in TABLES.items():
                await bare.execute(create)
                for size in SIZES:
                    ours, other = await _rates(store, bare, size, quick=quick)
                    figures.append(compare(f"enqueue {size} jobs/s, {table}", ours, other))
                await bare.execute("DROP TABLE bare")
        finally:
            await bare.close()
    return figures


async def _rates(
    store: Store, bare: Any, size: int, *, quick: bool
) -> tuple[list[float], list[float]]:
    """Jobs per second of both sides, round by round; each round is a few batches in turns."""
    ours, other = [], []
    insert = await bare.prepare(_INSERT)
    for _ in range(5 if quick else 9):
        spent = [0.0, 0.0]
        batches = (2_000 if quick else 5_000) // size
        for turn in range(batches):
            for side in (0, 1) if turn % 2 else (1, 0):
                batch = [Envelope(kind="noop", payload=PAYLOAD) for _ in range(size)]
                arrays = _arrays(prepare(batch))
                started = time.perf_counter()
                if side == 0:
                    await store.producer.enqueue(batch)
                else:
                    await insert.fetch(*arrays)
                spent[side] += time.perf_counter() - started
        ours.append(batches * size / spent[0])
        other.append(batches * size / spent[1])
    await bare.execute("TRUNCATE bare, headgate_job, headgate_ledger CASCADE")
    # The first round pays for plans and connections.
    return ours[1:], other[1:]


def _arrays(batch: Sequence[Envelope]) -> list[list[Any]]:
    names = ("id", "kind", "payload", "queue", "fingerprint")
    return [[getattr(envelope, name) for envelope in batch] for name in names]
