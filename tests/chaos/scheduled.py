"""A schedule that is due all the time; its jobs are done and gone at once."""

from headgate import Headgate

app = Headgate()


@app.periodic(every_ms=100, on_missed="backfill", backfill_limit=1_000, queue="chaos")
async def often() -> None:
    """Does nothing, quickly."""
