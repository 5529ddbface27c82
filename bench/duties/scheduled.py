"""The application of the killed schedulers: due every second, done and gone at once."""

from headgate import Headgate

app = Headgate()


@app.periodic(every_ms=1_000, on_missed="backfill", backfill_limit=100, queue="bench")
async def often() -> None:
    """Does nothing."""
