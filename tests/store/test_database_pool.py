"""The pool: what it hands out, what it throws away, and that no place in it is ever lost."""

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from headgate.model.errors import InvalidRequest
from headgate.store.pool import Pool, Use


class FakeConnection:
    """As much of a connection as the pool touches."""

    def __init__(self) -> None:
        self.closed = False
        self.in_transaction = False
        self.goodbye: BaseException | None = None

    def is_closed(self) -> bool:
        return self.closed

    def is_in_transaction(self) -> bool:
        return self.in_transaction

    def terminate(self) -> None:
        self.closed = True

    async def close(self, timeout: float) -> None:
        if self.goodbye is not None:
            raise self.goodbye
        self.closed = True


class Server:
    """Makes connections, or refuses."""

    def __init__(self) -> None:
        self.made: list[FakeConnection] = []
        self.refusal: Exception | None = None
        self.delay: asyncio.Event | None = None

    async def connect(self) -> FakeConnection:
        await asyncio.sleep(0)
        if self.delay is not None:
            await self.delay.wait()
        if self.refusal is not None:
            raise self.refusal
        self.made.append(FakeConnection())
        return self.made[-1]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def pool(server: Server) -> Pool:
    return Pool(server.connect, 2)


async def use(pool: Pool, error: BaseException | None = None) -> FakeConnection:
    async with Use(pool, 1_000) as connection:
        if error is not None:
            raise error
    found: FakeConnection = connection
    return found


async def test_the_last_one_used_is_the_next(pool: Pool, server: Server) -> None:
    async with Use(pool, 1_000) as first, Use(pool, 1_000) as second:
        assert first is not second
    assert await use(pool) is first
    assert await use(pool) is first
    assert len(server.made) == 2


async def test_never_more_than_its_size_and_first_come_first_served(
    pool: Pool, server: Server
) -> None:
    order: list[int] = []
    in_use = 0

    async def one(number: int) -> None:
        nonlocal in_use
        async with Use(pool, 5_000):
            in_use += 1
            assert in_use <= 2
            order.append(number)
            await asyncio.sleep(0)
            in_use -= 1

    await asyncio.gather(*(one(number) for number in range(20)))
    assert order == list(range(20))
    assert len(server.made) == 2


async def test_one_that_comes_back_is_taken_before_another_is_made(
    pool: Pool, server: Server
) -> None:
    made = asyncio.Event()
    async with Use(pool, 1_000) as first:
        server.delay = made
        waiting = asyncio.create_task(use(pool))
        await asyncio.sleep(0)
    assert await waiting is first
    made.set()
    async with Use(pool, 1_000), Use(pool, 1_000):
        pass
    assert len(server.made) == 2


async def test_what_is_being_made_ends_with_the_pool(pool: Pool, server: Server) -> None:
    server.delay = asyncio.Event()
    waiting = asyncio.create_task(pool.acquire(5_000))
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(asyncpg.InterfaceError, match="the pool is closed"):
        await waiting
    assert not server.made


async def test_whoever_waits_too_long_gives_up(pool: Pool) -> None:
    async with Use(pool, 1_000), Use(pool, 1_000):
        with pytest.raises(TimeoutError):
            await pool.acquire(10)
    await use(pool)


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (None, True),
        (asyncpg.UniqueViolationError("no"), True),
        (InvalidRequest("no"), True),
        (asyncpg.InterfaceError("broken"), False),
        (ConnectionResetError(), False),
        (TimeoutError(), False),
        (KeyError("a fault of ours"), False),
        (asyncio.CancelledError(), False),
    ],
)
async def test_only_a_clean_end_keeps_the_connection(
    pool: Pool, server: Server, error: BaseException | None, is_kept: bool
) -> None:
    if error is None:
        await use(pool)
    else:
        with pytest.raises(type(error)):
            await use(pool, error)
    assert server.made[0].closed is not is_kept
    assert (await use(pool) is server.made[0]) is is_kept


async def test_the_end_of_a_session_is_no_clean_end(pool: Pool, server: Server) -> None:
    shutdown = asyncpg.AdminShutdownError("terminating connection")
    shutdown.severity_en = "FATAL"
    with pytest.raises(asyncpg.AdminShutdownError):
        await use(pool, shutdown)
    assert server.made[0].closed


async def test_an_open_transaction_goes_to_nobody(pool: Pool, server: Server) -> None:
    async with Use(pool, 1_000) as connection:
        connection.in_transaction = True
    assert server.made[0].closed
    assert await use(pool) is server.made[1]


async def test_dead_ones_are_replaced(pool: Pool, server: Server) -> None:
    async with Use(pool, 1_000), Use(pool, 1_000):
        pass
    for connection in server.made:
        connection.closed = True
    async with Use(pool, 1_000) as first, Use(pool, 1_000) as second:
        assert {first, second} == set(server.made[2:])


async def test_one_that_died_in_use_makes_room_for_whoever_waits(
    pool: Pool, server: Server
) -> None:
    async with Use(pool, 1_000), Use(pool, 1_000) as dying:
        waiting = asyncio.create_task(use(pool))
        await asyncio.sleep(0)
        dying.closed = True
    assert (await waiting).closed is False
    assert len(server.made) in {2, 3}


async def test_a_refused_connection_costs_no_room(pool: Pool, server: Server) -> None:
    server.refusal = ConnectionRefusedError()
    for _ in range(5):
        with pytest.raises(ConnectionRefusedError):
            await use(pool)
    server.refusal = None
    async with Use(pool, 1_000), Use(pool, 1_000):
        pass


async def test_a_refusal_wakes_the_next_in_line(pool: Pool, server: Server) -> None:
    server.refusal = ConnectionRefusedError()
    results = await asyncio.gather(*(use(pool) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(result, ConnectionRefusedError) for result in results)


@pytest.mark.parametrize("end", [lambda task: task.cancel(), lambda task: None])
async def test_nothing_is_lost_when_a_waiter_leaves_as_it_is_served(
    pool: Pool, server: Server, end: Callable[[asyncio.Task[FakeConnection]], object]
) -> None:
    async with Use(pool, 1_000), Use(pool, 1_000):
        leaving = asyncio.create_task(use(pool))
        await asyncio.sleep(0)
    # Both connections are back, one of them in the hands of a task that has not run since.
    end(leaving)
    await asyncio.wait([leaving])
    async with Use(pool, 100), Use(pool, 100):
        pass
    assert len(server.made) == 2


async def test_cancelled_waiters_hold_no_place(pool: Pool) -> None:
    async with Use(pool, 1_000), Use(pool, 1_000):
        waiting = [asyncio.create_task(use(pool)) for _ in range(5)]
        await asyncio.sleep(0)
        for task in waiting[:4]:
            task.cancel()
    await asyncio.wait(waiting)
    assert not waiting[4].cancelled()


async def test_closing_ends_what_is_idle_now_and_the_rest_later(pool: Pool, server: Server) -> None:
    in_use = await pool.acquire(1_000)
    await use(pool)
    waiting_pool_is_full = await pool.acquire(1_000)
    waiting = asyncio.create_task(use(pool))
    await asyncio.sleep(0)
    pool.release(waiting_pool_is_full)
    await waiting
    await pool.close()
    assert [connection.closed for connection in server.made] == [False, True]
    pool.release(in_use)
    assert in_use.closed
    with pytest.raises(asyncpg.InterfaceError, match="the pool is closed"):
        await pool.acquire(1_000)


async def test_closing_turns_those_away_who_wait(pool: Pool) -> None:
    held = [await pool.acquire(1_000), await pool.acquire(1_000)]
    waiting = asyncio.create_task(pool.acquire(5_000))
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(asyncpg.InterfaceError, match="the pool is closed"):
        await waiting
    for connection in held:
        pool.release(connection)


@pytest.mark.parametrize("goodbye", [TimeoutError(), asyncpg.InterfaceError("lost"), OSError()])
async def test_a_server_that_is_gone_does_not_stop_the_closing(
    pool: Pool, server: Server, goodbye: BaseException
) -> None:
    async with Use(pool, 1_000), Use(pool, 1_000):
        pass
    server.made[0].goodbye = goodbye
    server.made[1].goodbye = goodbye
    await pool.close()
