"""Handlers that run in processes: they are found by name, so they stand in a module."""

import os
import signal
import time
from typing import Any

import msgspec

from headgate import Headgate, JobContext, Skip
from tests.store.transactions import blocking, charge_blocking

HOUR_MS = 3_600_000

app = Headgate()


class Square(msgspec.Struct):
    number: int


@app.task("square", process=True, retention_ms=HOUR_MS)
def square(ctx: JobContext, payload: Square) -> dict[str, int]:
    print("not a message")
    ctx.log(f"squaring {payload.number}")
    ctx.report_actual_weight(2)
    return {"square": payload.number**2, "pid": os.getpid()}


@app.task("steps", process=True, retention_ms=HOUR_MS)
def steps(ctx: JobContext) -> None:
    ctx.blocking.step("one", ctx.log, "one")
    ctx.blocking.progress(1, 2, "half")
    ctx.blocking.output([1])
    ctx.blocking.extend_lease(120_000)
    if ctx.attempt == 0:
        raise ValueError("not yet")
    ctx.blocking.step("two", ctx.log, "two")


@app.task("ends", process=True)
def ends(how: str) -> Any:
    if how == "skip":
        raise Skip("from a process")
    if how == "killed":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exits":
        raise SystemExit(3)
    if how == "sleeps":
        time.sleep(60)
    return None


@app.task("pays", process=True, retention_ms=HOUR_MS)
def pays(ctx: JobContext, dsn: str) -> None:
    with blocking(dsn) as connection:
        ctx.blocking.once(charge_blocking, connection=connection)
