"""An installation as an operator meets it: busy, in trouble here and there, with odd names."""

import json
from hashlib import sha256
from typing import Any, Final

import asyncpg

from headgate import Headgate, Keyring, PayloadEncryption
from headgate.client.workflow import Workflow
from headgate.model.envelope import Envelope
from headgate.model.periodic import ScheduleDefinition
from headgate.model.policy import ConcurrencyLimit, RateClassPolicy
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.contract.job_states import put_into

IMAGE: Final = "<img src=x onerror=alert(1)>"
RESERVED: Final = "a/b?c#d%20 é"
DOTS: Final = "../x?y#z"
LONG: Final = "long-" + "x" * 250

ENCRYPTION: Final = PayloadEncryption(Keyring("k1", {"k1": bytes(32)}))

_NOW: Final = "SELECT (extract(epoch from now()) * 1000)::bigint"
_JOB: Final = """
INSERT INTO headgate_job (ulid, kind, payload, queue, state, partition_key, rate_class, fingerprint,
  priority, attempt, crash_attempt, max_attempts, enqueued_at_ms, scheduled_at_ms, finalized_at_ms,
  lease_id, lease_expires_at_ms, claimed_at_ms, claimed_by, errors, headers, result_schema_version,
  result_bytes, progress_current, progress_total, progress_message, progress_fence,
  progress_updated_at_ms, checkpoint)
SELECT each.id, each.kind, convert_to(each.payload, 'UTF8'), each.queue,
  each.state::headgate_state, each.partition, each.rate_class, each.fingerprint, each.priority,
  each.attempt, each.crash_attempt, each.max_attempts, $2::bigint - each.age_ms, $2 + each.due_ms,
  CASE WHEN each.state IN ('completed', 'archived', 'cancelled', 'undecodable')
    THEN $2 - each.ended_ms END,
  CASE WHEN each.state = 'running' THEN 'lease-' || each.id END,
  CASE WHEN each.state = 'running' THEN $2 + 3600000 END,
  CASE WHEN each.state IN ('running', 'completed') THEN $2 - each.ended_ms - each.ran_ms END,
  CASE WHEN each.state = 'running' THEN 'host-1-4711' END,
  each.errors, each.headers,
  CASE WHEN each.result IS NOT NULL THEN 1 END, convert_to(each.result, 'UTF8'),
  CASE WHEN each.progress > 0 THEN each.progress END, CASE WHEN each.progress > 0 THEN 100 END,
  CASE WHEN each.progress > 0 THEN 'page ' || each.progress END,
  CASE WHEN each.progress > 0 THEN 1 END, CASE WHEN each.progress > 0 THEN $2 END,
  each.checkpoint
FROM jsonb_to_recordset($1::jsonb) AS each(id text, kind text, payload text, queue text, state text,
  partition text, rate_class text, fingerprint text, priority int, attempt int, crash_attempt int,
  max_attempts int, age_ms bigint, due_ms bigint, ended_ms bigint, ran_ms bigint, errors jsonb,
  headers jsonb, result text, progress bigint, checkpoint jsonb)
"""

_COUNTERS: Final = """
INSERT INTO headgate_queue_counter (queue, bucket_ms, arrived, completed)
SELECT $1, $4::bigint / 60000 * 60000 - n * 60000,
  round($2 * (1 + 0.35 * sin(n / 9.0) + 0.2 * sin(n / 2.3)))::bigint,
  round($3 * (1 + 0.3 * sin((n - 3) / 9.0) + 0.1 * cos(n / 3.1)))::bigint
FROM generate_series(0, 180) AS n
"""

_WORKER: Final = """
INSERT INTO headgate_worker (worker_id, host, pid, queues, concurrency, started_at_ms,
  heartbeat_at_ms, inflight, polls, empty_polls, status, duties_active, command)
VALUES ($1, $2, $3, $4, 16, $5::bigint - 7200000, $5::bigint - $6, $7, 128, $8, $9, $10, $11)
"""
_QUARANTINE: Final = """
INSERT INTO headgate_quarantine (fingerprint, kind, crash_count, quarantined_at_ms, reason)
VALUES ('8b50ed3c62f252c8bb4b67aedb280f0d', 'pdf:render', 3, $1::bigint - 70000,
  '3 workers in a row died with it')
"""
_AGE: Final = """
UPDATE headgate_job AS job
SET enqueued_at_ms = $2 - each.age_ms, scheduled_at_ms = $2 + each.due_ms
FROM jsonb_to_recordset($1::jsonb) AS each(id text, age_ms bigint, due_ms bigint)
WHERE job.ulid = each.id
"""

_ERROR: Final = (
    "Traceback (most recent call last):\n"
    '  File "shop/mail.py", line 41, in welcome\n'
    "    await smtp.send(message)\n"
    "ConnectionResetError: [Errno 104] connection reset by peer"
)


def job(job_id: str, state: str = "available", **fields: Any) -> dict[str, Any]:
    """A job for `insert`; times are milliseconds before or after now."""
    found = {
        "id": job_id,
        "kind": "email:welcome",
        "payload": json.dumps({"to": "ada", "id": 9007199254740993}),
        "queue": "mail",
        "state": state,
        "partition": "",
        "rate_class": "",
        "priority": 0,
        "attempt": 0,
        "crash_attempt": 0,
        "max_attempts": 25,
        "age_ms": 600_000,
        "due_ms": -600_000,
        "ended_ms": 30_000,
        "ran_ms": 4_200,
        "errors": [],
        "headers": {},
        "result": None,
        "progress": 0,
        "checkpoint": {},
        **fields,
    }
    digest = sha256(f"{found['kind']} {found['payload']} {job_id}".encode()).hexdigest()[:32]
    return {"fingerprint": digest, **found}


def failed(at_ms: int, attempt: int, **fields: Any) -> dict[str, Any]:
    return {"at_ms": at_ms, "attempt": attempt, "outcome": "retry", "error": _ERROR, **fields}


async def insert(store: Store, connection: Any, now: int, *jobs: dict[str, Any]) -> None:
    """Writes the jobs down as they are; those that are available get in by the front door."""
    available = [each for each in jobs if each["state"] == "available"]
    others = [each for each in jobs if each["state"] != "available"]
    await connection.execute(_JOB, json.dumps(others), now)
    await store.producer.enqueue(
        [
            Envelope(
                id=each["id"],
                kind=each["kind"],
                payload=each["payload"].encode(),
                queue=each["queue"],
                partition_key=each["partition"],
                rate_class=each["rate_class"],
            )
            for each in available
        ]
    )
    await connection.execute(_AGE, json.dumps(available), now)


def hostile_jobs() -> list[dict[str, Any]]:
    """Jobs whose every text is something that a page might stumble over."""
    names = {"image": IMAGE, "reserved": RESERVED, "dots": DOTS, "long": LONG}
    return [
        job(
            text,
            "archived",
            kind=text[:128],
            queue=text,
            partition=text,
            payload=json.dumps({text: text}, ensure_ascii=False),
            errors=[{"at_ms": 1, "attempt": 1, "outcome": "retry", "error": text, "logs": [text]}],
        )
        for text in names.values()
    ]


async def seed(dsn: str, *, many: int = 400) -> None:
    """Fills the database of `dsn`."""
    connection = await asyncpg.connect(dsn)
    async with Store(StoreSettings(dsn=dsn)) as store:
        await _fill(store, connection, many)
        await _begin_workflow(store, dsn, await connection.fetchval(_NOW))
        await _seal(store)
        while await store.upkeep.fold_ledger(5_000):
            pass
        await _set_traffic(connection)
    await connection.close()


async def _fill(store: Store, connection: Any, many: int) -> None:
    now: int = await connection.fetchval(_NOW)
    waiting = [
        job(f"mail-{n:05}", kind=("email:welcome", "email:receipt", "email:digest")[n % 3],
            partition=("acme", "globex", "initech", "umbrella")[n % 4 if n % 5 else 0],
            rate_class="smtp", age_ms=n * 2_000, due_ms=-n * 2_000)
        for n in range(many)
    ]  # fmt: skip
    done = [
        job(f"mail-done-{n:05}", "completed", age_ms=9_000 + n * 700, due_ms=-9_000 - n * 700,
            ended_ms=n * 650, result='{"sent": true}')
        for n in range(many)
    ]  # fmt: skip
    await insert(store, connection, now, *waiting, *done)
    await insert(
        store,
        connection,
        now,
        *(job(f"thumb-{n}", kind="image:resize", queue="thumbnails", age_ms=n * 9_000,
              due_ms=-n * 9_000, partition=f"shop-{n % 7}") for n in range(90)),
        *(job(f"report-{n}", "running", kind="report:daily", queue="reports", ended_ms=0,
              ran_ms=31_000 + n * 5_000, attempt=1, partition="acme", progress=42 + n)
          for n in range(3)),
        *(job(f"report-w-{n}", kind="report:daily", queue="reports", partition="acme",
              due_ms=-50_000) for n in range(12)),
        *(job(f"import-{n}", kind="catalog:import", queue="imports", due_ms=-3_000_000)
          for n in range(25)),
        *(job(f"bill-{n}", "scheduled", kind="invoice:issue", queue="billing",
              due_ms=3_600_000 * (n + 1)) for n in range(8)),
        *(job(f"dead-{n}", "archived", attempt=5, max_attempts=5, age_ms=7_200_000,
              due_ms=-7_200_000, ended_ms=n * 50_000,
              errors=[failed(now - 900_000 + n * 1000, 4),
                      failed(now - 400_000, 5, logs=["dns lookup took 4.1 s",
                             '{"level": "warning", "message": "second relay used"}'])])
          for n in range(7)),
        job("retry-1", "retryable", attempt=2, due_ms=95_000, rate_class="smtp",
            errors=[failed(now - 500_000, 1), failed(now - 60_000, 2)]),
        job("pending-1", "pending", kind="newsletter:send"),
        job("cancelled-1", "cancelled", ended_ms=120_000),
        job("undecodable-1", "undecodable", kind="email:welcome", payload="no json \x01"),
        *(job(f"poison-{n}", "quarantined", kind="pdf:render", queue="thumbnails", crash_attempt=3,
              fingerprint="8b50ed3c62f252c8bb4b67aedb280f0d",
              errors=[{"at_ms": now - 70_000, "crash_attempt": 3, "outcome": "crash"}])
          for n in range(4)),
        job("steps-1", "running", kind="video:encode", queue="reports", ended_ms=0, attempt=1,
            progress=61, checkpoint={}),
    )  # fmt: skip
    await insert(store, connection, now, *hostile_jobs())
    for worker in (
        ("host-1", 4711, ["mail", "reports", "billing"], now, 2_000, 11, 9, "running", True, None),
        ("host-2", 812, ["mail", "reports"], now, 4_000, 15, 2, "running", False, "quiet"),
        ("host-2", 813, ["mail"], now, 1_000, 0, 128, "quiet", False, None),
        ("host-3", 20, ["imports"], now, 600_000, 0, 10, "running", False, None),
    ):
        await connection.execute(_WORKER, f"{worker[0]}-{worker[1]}", *worker)
    await connection.execute(_QUARANTINE, now)
    await _set_policies(store)


async def _begin_workflow(store: Store, dsn: str, now: int) -> None:
    """One that got half way, where a part of it failed."""
    workflow = Workflow("nightly-import")
    fetch = workflow.add(Envelope(kind="import:fetch", queue="imports"), name="fetch")
    parts = [
        workflow.add(Envelope(kind=f"import:{name}", queue="imports"), name=name, after=fetch)
        for name in ("prices", "stock", "pictures")
    ]
    publish = workflow.add(Envelope(kind="import:publish", queue="imports"), name="publish",
                           after=parts)  # fmt: skip
    workflow.add(Envelope(kind="mail:done", queue="mail"), name="tell everybody", after=publish)
    await store.producer.enqueue(workflow.jobs())
    for states in ({"fetch": "completed"}, {"prices": "completed", "stock": "archived"}):
        for name, state in states.items():
            await put_into(dsn, f"nightly-import:{name}", state, ended_ms=now)
        await store.workflows.advance("nightly-import:coordinator")


async def _seal(store: Store) -> None:
    app = Headgate()
    app.bind(store)

    @app.task("card:charge", encryption=ENCRYPTION)
    async def charge(card: str) -> None: ...

    await charge.enqueue("4111 1111", id="sealed-1")


async def _set_traffic(connection: Any) -> None:
    """What was written just now is no traffic that anybody would see."""
    now: int = await connection.fetchval(_NOW)
    await connection.execute("DELETE FROM headgate_queue_counter")
    for queue, arrived, completed in (
        ("mail", 74, 58), ("reports", 6, 6), ("thumbnails", 21, 34), ("billing", 2, 2),
    ):  # fmt: skip
        await connection.execute(_COUNTERS, queue, float(arrived), float(completed), now)


async def _set_policies(store: Store) -> None:
    await store.policies.put_rate_class(
        "smtp", RateClassPolicy(limit=100, window_ms=60_000, burst=100, paused=False)
    )
    await store.policies.put_rate_class(
        "stripe", RateClassPolicy(limit=0, window_ms=1_000, burst=10, paused=True)
    )
    await store.policies.put_concurrency_limit(
        ConcurrencyLimit(
            name="report-per-tenant", queue="reports", max_concurrent=3, on_saturated="queue"
        )
    )
    await store.queues.pause("imports")
    await store.queues.set_weight("mail", 3)
    await store.queues.set_enqueue_limit("mail", 10_000)
    for schedule_id, spec, kind, queue, paused in (
        ("nightly-report", "CRON_TZ=Europe/Paris 30 2 * * *", "report:daily", "reports", False),
        ("refresh-search", "@every:60000", "search:refresh", "search", False),
        ("weekly-letter", "0 9 * * 1", "newsletter:send", "mail", True),
    ):
        await store.schedules.put(
            ScheduleDefinition(
                id=schedule_id,
                kind=kind,
                spec=spec,
                queue=queue,
                payload=b'{"format": "pdf"}',
                paused=paused,
            )
        )
