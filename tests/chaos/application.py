"""What the workers under fire run."""

import asyncio
import random

from headgate import Headgate

app = Headgate()


@app.task("chaos", queue="chaos", max_attempts=4)
async def shaky(payload: dict[str, int]) -> None:
    """Takes a moment, and fails one time in ten."""
    await asyncio.sleep(random.random() * 0.01)
    if random.random() < 0.1:
        raise RuntimeError(f"job {payload['number']} had bad luck")
