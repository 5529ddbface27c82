"""An importer whose customers take turns: nobody waits behind somebody else's thousand files.

`partition_key` is all it takes. A ceiling per partition, set by an operator, would bound how many
files of one customer are read at a time: `headgate limits set each --queue imports --max 2`.
"""

import asyncio
from datetime import timedelta

import msgspec

from headgate import Headgate, JobContext

app = Headgate(name="importer")


class File(msgspec.Struct):
    customer: str
    name: str


imported: list[str] = []
"""The customers in the order in which their files were read by this process."""


@app.task("import:file", queue="imports", max_attempts=5, retention=timedelta(hours=1))
async def import_file(ctx: JobContext, file: File) -> None:
    imported.append(file.customer)
    ctx.log(f"read {file.name} of {file.customer}")


async def submit(customer: str, names: list[str]) -> None:
    """Enqueues the files of a customer, all or none. The same file again changes nothing."""
    await app.enqueue_many(
        import_file.job(
            File(customer, name), id=f"import:{customer}:{name}", partition_key=customer
        )
        for name in names
    )


async def main() -> None:
    async with app:
        await submit("large", [f"{number}.csv" for number in range(500)])
        await submit("small", ["one.csv", "two.csv"])


if __name__ == "__main__":
    asyncio.run(main())
