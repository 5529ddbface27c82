"""The counts of the ledger beside the rows they count."""

from tests.store.rows import Observer

TRUE_PER_QUEUE = "SELECT queue, state, count(*) AS n FROM headgate_job GROUP BY 1, 2"
TRUE_PER_PARTITION = (
    "SELECT queue, partition_key, state, count(*) AS n FROM headgate_job"
    " WHERE state < 'completed' GROUP BY 1, 2, 3"
)
READ_PER_QUEUE = (
    "SELECT queue, state, sum(n)::bigint AS n FROM (SELECT queue, state, n FROM"
    " headgate_queue_count UNION ALL SELECT queue, state, n FROM headgate_ledger"
    " WHERE state IS NOT NULL) AS counts GROUP BY 1, 2 HAVING sum(n) <> 0"
)
READ_PER_PARTITION = (
    "SELECT queue, partition_key, state, sum(n)::bigint AS n FROM (SELECT queue, partition_key,"
    " state, n FROM headgate_partition_count UNION ALL SELECT queue, partition_key, state, n"
    " FROM headgate_ledger WHERE state < 'completed') AS counts GROUP BY 1, 2, 3"
    " HAVING sum(n) <> 0"
)


async def assert_exact(observer: Observer) -> None:
    """What a reader adds up is what is there, at both grains and in one snapshot."""
    async with observer.transaction(isolation="repeatable_read", readonly=True):
        for true, read in (
            (TRUE_PER_QUEUE, READ_PER_QUEUE),
            (TRUE_PER_PARTITION, READ_PER_PARTITION),
        ):
            assert set(await observer.fetch(read)) == set(await observer.fetch(true))
