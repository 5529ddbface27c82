"""A shop: an order and the job that confirms it exist together or not at all.

The confirmation writes into the same database, so that even a worker that dies in the middle of it
cannot confirm an order twice.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
from fastapi import FastAPI, HTTPException
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from headgate import Headgate, JobContext

metadata = MetaData()
orders = Table(
    "shop_order",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("customer", Text, nullable=False),
    Column("cents", Integer, nullable=False),
)
confirmations = Table("shop_confirmation", metadata, Column("number", Integer, nullable=False))

jobs = Headgate(name="shop")


class Order(msgspec.Struct):
    number: int


@jobs.task("shop:confirm", queue="mail", max_attempts=5, retention=timedelta(days=1))
async def confirm(ctx: JobContext, order: Order) -> None:
    await ctx.once(write_confirmation, order.number)


async def write_confirmation(connection: Any, number: int) -> None:
    await connection.execute("INSERT INTO shop_confirmation (number) VALUES ($1)", number)


engine = create_async_engine(
    os.environ["HEADGATE_DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://")
)


async def place(connection: AsyncConnection, customer: str, cents: int) -> int:
    """Writes an order and enqueues its job, in the transaction of the connection."""
    added = await connection.execute(
        insert(orders).values(customer=customer, cents=cents).returning(orders.c.number)
    )
    number: int = added.scalar_one()
    await confirm.enqueue(Order(number), connection=connection, partition_key=customer)
    if cents > 100_000:
        raise HTTPException(402, "no credit")  # after the job: neither stays
    return number


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    async with jobs:
        yield
    await engine.dispose()


web = FastAPI(lifespan=lifespan)


@web.post("/orders/{customer}/{cents}", status_code=201)
async def order(customer: str, cents: int) -> dict[str, int]:
    async with engine.begin() as connection:
        return {"number": await place(connection, customer, cents)}
