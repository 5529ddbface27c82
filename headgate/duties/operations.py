"""Works off what operators asked of whole selections of jobs."""

from headgate.store.store import Store


class OperationsRunner:
    """Does a batch of each of the next unfinished operations, and again while one of them moves.

    An operation that waits, for jobs that run or that somebody holds, is looked at once per
    interval.
    """

    name = "operations"
    interval_ms = 1_000
    # Counts operations: with one that got on there is more to do.
    batch = 1
    jobs = 1_000

    async def run_once(self, store: Store) -> int:
        return await store.operations.run_pending(self.jobs)
