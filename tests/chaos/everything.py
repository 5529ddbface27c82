"""What runs while everything fails: plain work, effects that must happen once, and every policy.

Each attempt leaves a note in `chaos_attempt`, each effect one in `chaos_effect`.
"""

import asyncio
import os
import random
from typing import Any

import asyncpg
import msgspec

from headgate import Headgate, JobContext

app = Headgate()

QUEUES = ("plain", "narrow", "metered", "effects")
KINDS = ("plain", "metered", "step", "once")

_INSERT_ATTEMPT = "INSERT INTO chaos_attempt (job_id, rate_class) VALUES ($1, $2)"
_INSERT_EFFECT = "INSERT INTO chaos_effect (job_id) VALUES ($1)"

_notes: "asyncpg.Pool[Any] | None" = None


class Work(msgspec.Struct):
    number: int


async def _note(ctx: JobContext) -> None:
    global _notes
    if _notes is None:
        _notes = await asyncpg.create_pool(
            os.environ["HEADGATE_DATABASE_URL"], min_size=0, max_size=4, command_timeout=5
        )
    await _notes.execute(_INSERT_ATTEMPT, ctx.id, ctx.rate_class)


async def _happen(connection: Any, ctx: JobContext) -> None:
    await connection.execute(_INSERT_EFFECT, ctx.id)
    # Time to die between the effect and the end of its step.
    await asyncio.sleep(random.random() * 0.8)


async def _work() -> None:
    await asyncio.sleep(random.random() * 0.2)
    if random.random() < 0.1:
        raise RuntimeError("bad luck")


@app.task("plain", queue="plain")
async def plain(ctx: JobContext, work: Work) -> None:
    await _note(ctx)
    await _work()


@app.task("metered", queue="metered", rate_class="api")
async def metered(ctx: JobContext, work: Work) -> None:
    await _note(ctx)
    await _work()


@app.task("step", queue="effects")
async def step(ctx: JobContext, work: Work) -> None:
    await ctx.step_once("happen", _happen, ctx)
    await _work()


@app.task("once", queue="narrow")
async def once(ctx: JobContext, work: Work) -> None:
    await _work()
    await ctx.once(_happen, ctx)
