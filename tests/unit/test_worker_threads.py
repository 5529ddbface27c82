"""Threads for plain functions, and what was asked of a worker that ends."""

import asyncio
import contextvars
import threading
import time

import pytest

from headgate.worker.shutdown import Shutdown
from headgate.worker.threads import HandlerThreads

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")


async def test_threads_are_started_as_needed_and_used_again() -> None:
    threads = HandlerThreads(2)
    both = threading.Barrier(2, timeout=10)
    names: set[str] = set()

    def work(number: int) -> int:
        names.add(threading.current_thread().name)
        both.wait()
        return number

    for _ in range(3):
        futures = [threads.submit(work, number) for number in range(2)]
        assert [await future for future in futures] == [(0, None), (1, None)]
    assert names == {"headgate handler 0", "headgate handler 1"}
    threads.close()


async def test_a_thread_sees_the_context_of_its_caller() -> None:
    threads = HandlerThreads(1)
    variable.set("here")
    assert (await threads.submit(variable.get))[0] == "here"
    threads.close()


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(), asyncio.CancelledError()])
async def test_whatever_is_raised_arrives(error: BaseException) -> None:
    threads = HandlerThreads(1)

    def fail() -> None:
        raise error

    assert await threads.submit(fail) == (None, error)
    threads.close()


async def test_threads_do_not_keep_the_process_alive() -> None:
    threads = HandlerThreads(1)
    seen: list[bool] = []
    await threads.submit(lambda: seen.append(threading.current_thread().daemon))
    assert seen == [True]
    threads.close()


async def test_a_limit_that_follows_a_drain_without_one_counts() -> None:
    shutdown = Shutdown()
    shutdown.drain(None)
    never = asyncio.create_task(asyncio.Event().wait())
    waiting = asyncio.create_task(shutdown.drained(never))
    await asyncio.wait((waiting,), timeout=0.05)
    assert not waiting.done()
    shutdown.drain(5)
    shutdown.drain(60_000)
    async with asyncio.timeout(10):
        await waiting
    assert (shutdown.draining, shutdown.releasing, never.done()) == (True, False, False)
    never.cancel()


async def test_waiting_ends_with_the_limit_or_the_release() -> None:
    shutdown = Shutdown()
    never = asyncio.Event()
    await shutdown.requested(1)
    assert not shutdown.draining
    task = asyncio.create_task(never.wait())
    await shutdown.wait(task, 1)
    assert not task.done()
    asyncio.get_running_loop().call_soon(shutdown.release)
    began = time.monotonic()
    await shutdown.wait(task, 60_000)
    await shutdown.requested()
    assert time.monotonic() - began < 10
    assert not task.done()
    task.cancel()
