"""Handlers in processes: with everything a handler can do, and no harm to anybody else."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import Envelope, Headgate, RegistrationError, Store, Worker, WorkerConfig
from headgate.worker.guard import ProcessGuard
from tests.store.rows import Observer, job_row
from tests.worker import busy
from tests.worker.conftest import QUICK, StartProcess
from tests.worker.waiting import eventually, reaches


@pytest.fixture
async def start(store: Store) -> AsyncIterator[Callable[..., Worker]]:
    started: list[tuple[Worker, asyncio.Task[None]]] = []

    def start_worker(**config: Any) -> Worker:
        worker = Worker(busy.app, store, WorkerConfig(**{**QUICK, "processes": 1, **config}))
        started.append((worker, asyncio.create_task(worker.run())))
        return worker

    busy.app.bind(store)
    yield start_worker
    for worker, _ in started:
        worker.shutdown(now=True)
    for _, task in started:
        await task


async def row_of(observer: Observer, job_id: str) -> dict[str, Any]:
    row = await job_row(observer, job_id)
    assert row is not None
    return {**row, "errors": json.loads(row["errors"])}


async def test_one_process_runs_many_jobs_and_is_another_than_the_worker(
    start: Callable[..., Worker], observer: Observer
) -> None:
    jobs = [await busy.square.enqueue(busy.Square(number)) for number in range(3)]
    start()
    results = []
    for number, job in enumerate(jobs):
        await reaches(observer, job.id, "completed")
        row = await row_of(observer, job.id)
        assert row["errors"][0]["logs"] == [f"squaring {number}"]
        results.append(json.loads(row["result_bytes"]))
    assert [result["square"] for result in results] == [0, 1, 4]
    (pid,) = {result["pid"] for result in results}
    assert pid != os.getpid()


async def test_steps_progress_and_output_work_from_a_process(
    start: Callable[..., Worker], store: Store, observer: Observer
) -> None:
    job = await busy.steps.enqueue()
    start(duties=True)
    await reaches(observer, job.id, "completed")
    row = await row_of(observer, job.id)
    assert [entry["logs"] for entry in row["errors"]] == [["one"], ["two"]]
    assert row["errors"][0]["error"].startswith("ValueError: not yet")
    progress = await store.artifacts.progress(job.id)
    assert progress is not None
    assert (progress.current, progress.message) == (1, "half")
    assert row["output_bytes"] == b"[1]"


async def test_an_effect_from_a_process(
    start: Callable[..., Worker], observer: Observer, headgate_database: str
) -> None:
    await observer.execute("CREATE TABLE charge (id bigint GENERATED ALWAYS AS IDENTITY)")
    job = await busy.pays.enqueue(headgate_database)
    worker = start()
    await reaches(observer, job.id, "completed")
    await eventually(lambda: worker.held == 0)
    assert await observer.fetchval("SELECT count(*) FROM charge") == 1


async def test_a_process_says_how_the_job_ends(
    start: Callable[..., Worker], observer: Observer
) -> None:
    skipped, exited = await busy.ends.enqueue("skip"), await busy.ends.enqueue("exits")
    start()
    await reaches(observer, skipped.id, "archived")
    assert (await row_of(observer, skipped.id))["errors"][0]["error"] == "from a process"
    await reaches(observer, exited.id, "retryable")
    assert (await row_of(observer, exited.id))["errors"][0]["error"].startswith("panic: SystemExit")


async def test_a_process_that_dies_has_crashed_its_job_and_nobody_elses(
    start: Callable[..., Worker], observer: Observer
) -> None:
    killed = await busy.ends.enqueue("killed", max_attempts=1)
    other = await busy.square.enqueue(busy.Square(3))
    start(duties=True, lease_ms=1_500)
    await reaches(observer, other.id, "completed")
    await reaches(observer, killed.id, "retryable")
    row = await row_of(observer, killed.id)
    # On a slow machine it may have begun, and crashed, once more.
    assert row["attempt"] == 0
    assert row["crash_attempt"] >= 1


async def test_a_process_is_killed_when_its_time_is_over(
    start: Callable[..., Worker], observer: Observer
) -> None:
    slow = await busy.ends.enqueue("sleeps", timeout_ms=1_500)
    start()
    await reaches(observer, slow.id, "retryable")
    row = await row_of(observer, slow.id)
    assert row["errors"][0]["error"] == "attempt timed out after 1500 ms"
    after = await busy.square.enqueue(busy.Square(2))
    await reaches(observer, after.id, "completed")


SLEEPERS = """
import os, subprocess, time
from headgate import Headgate

app = Headgate()


def told(path, *pids):
    with open(path + ".part", "w") as file:
        file.write(" ".join(map(str, pids)))
    os.rename(path + ".part", path)


@app.task("sleeps", process=True)
def sleeps() -> None:
    told("handler", os.getpid(), subprocess.Popen(["sleep", "300"]).pid)
    time.sleep(300)


sleep = "sleep 300 & echo $$ $! > part && mv part program && wait"
app.isolated("program", ["sh", "-c", sleep], inherit_env=True)
"""


async def test_nothing_that_a_worker_has_started_outlives_it_when_it_is_killed(
    start_process: StartProcess, store: Store, tmp_path: Path
) -> None:
    paths = [tmp_path / "handler", tmp_path / "program"]
    await store.producer.enqueue(
        [Envelope(kind=kind, payload=b"{}") for kind in ("sleeps", "program")]
    )
    process = start_process(SLEEPERS)
    await eventually(lambda: all(path.exists() for path in paths))
    pids = [int(pid) for path in paths for pid in path.read_text().split()]
    assert len(pids) == 4
    assert all(is_alive(pid) for pid in pids)
    process.signal(signal.SIGKILL)
    await eventually(lambda: not any(is_alive(pid) for pid in pids))


def test_a_guardian_that_was_killed_is_replaced() -> None:
    guard = ProcessGuard()
    sleepers = [subprocess.Popen(["sleep", "300"], start_new_session=True) for _ in range(2)]
    guard.watch(sleepers[0].pid)
    assert guard._guardian is not None
    guard._guardian.kill()
    guard._guardian.wait()
    guard.watch(sleepers[1].pid)
    guard.close()
    assert [sleeper.wait(10) for sleeper in sleepers] == [-signal.SIGKILL, -signal.SIGKILL]


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def test_a_handler_that_cannot_be_found_by_name_is_refused() -> None:
    app = Headgate()
    with pytest.raises(RegistrationError, match="define it in a module"):
        app.task("a", process=True)(lambda: None)

    async def on_loop() -> None: ...

    with pytest.raises(RegistrationError, match="a process runs a `def`"):
        app.task("a", process=True)(on_loop)
