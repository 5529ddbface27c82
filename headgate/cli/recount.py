"""`headgate recount`: the counts and the registry of lanes, set right after a restore."""

import asyncio

import typer

from headgate.store.recount import Recounted
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

_LANES = 500


def recount() -> None:
    """Count all jobs again, correct the counts, and register lanes that were lost.

    For after a restore of single tables, or with triggers off. Safe while jobs run.
    """
    counted, lanes = asyncio.run(_recount())
    typer.echo(f"counted {counted.jobs} jobs")
    typer.echo(f"corrected {counted.queues} counts of queues, {counted.partitions} of partitions")
    typer.echo(f"registered {lanes} lanes")


async def _recount() -> tuple[Recounted, int]:
    async with Store(StoreSettings.from_environment()) as store:
        await store.check_schema()
        counted = await store.recount.run()
        lanes = 0
        while True:
            examined, registered = await store.lanes.register_forgotten(_LANES)
            lanes += registered
            if examined < _LANES:
                return counted, lanes
