"""`headgate jobs import`, as a user starts it."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate.model.identity import fingerprint
from tests.forks import Ended, Fork, headgate
from tests.store.backlog import quarantine
from tests.store.conftest import observer as observer  # the fixture
from tests.store.rows import Observer, assert_lanes, count_jobs
from tests.store.waiting import until


class Command:
    """The command on the database of the test."""

    def __init__(self, dsn: str, directory: Path) -> None:
        self._environment = {**os.environ, "HEADGATE_DATABASE_URL": dsn}
        self._directory = directory
        self._started: list[Fork] = []

    def start(self, *arguments: str, stdin: str = "") -> Fork:
        self._started.append(
            Fork(
                headgate("jobs", "import", *arguments),
                directory=self._directory,
                environment=self._environment,
                stdin=stdin,
            )
        )
        return self._started[-1]

    def run(self, *arguments: str, stdin: str = "") -> Ended:
        return self.start(*arguments, stdin=stdin).wait()

    def end(self) -> None:
        for process in self._started:
            process.kill()


@pytest.fixture
def command(headgate_database: str, tmp_path: Path) -> Iterator[Command]:
    command = Command(headgate_database, tmp_path)
    yield command
    command.end()


Write = Callable[[Iterable[Any]], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes lines into the file that is imported; its name."""

    def write_lines(lines: Iterable[Any]) -> str:
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        (tmp_path / "jobs.jsonl").write_text("".join(f"{text}\n" for text in texts))
        return "jobs.jsonl"

    return write_lines


def jobs(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"kind": "mail", "payload": {"n": number}, **fields} for number in range(count)]


async def numbers(observer: Observer) -> list[int]:
    rows = await observer.fetch("SELECT payload FROM headgate_job ORDER BY id")
    return [json.loads(row["payload"])["n"] for row in rows]


async def test_a_file_gets_in_whole_and_in_its_order(
    command: Command, write: Write, observer: Observer
) -> None:
    given = jobs(2_500, queue="q", partition_key="p", tags=["t"], headers={"h": "1"})
    done = command.run(write([*given[:1_200], "", *given[1_200:]]))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2500 enqueued; ")
    assert await numbers(observer) == list(range(2_500))
    row = await observer.fetchrow(
        "SELECT DISTINCT queue, partition_key, state::text, headers::text FROM headgate_job"
    )
    assert row is not None
    assert tuple(row) == ("q", "p", "available", '{"h": "1"}')
    assert await observer.fetchval("SELECT count(*) FROM headgate_job_tag") == 2_500
    await assert_lanes(observer)


async def test_the_same_file_again_adds_nothing_though_its_jobs_are_gone(
    command: Command, write: Write, observer: Observer
) -> None:
    file = write(jobs(5))
    command.run(file)
    await observer.execute("DELETE FROM headgate_job")
    again = command.run(file)
    assert (again.returncode, again.stderr) == (
        0,
        "headgate: lines 1 to 5 are dealt with already\n",
    )
    assert again.stdout.startswith("0 enqueued; ")
    assert await count_jobs(observer) == 0
    assert command.run(file, "--key", "once more").stdout.startswith("5 enqueued; ")
    assert await numbers(observer) == list(range(5))


async def test_an_import_that_was_killed_goes_on_where_it_was(
    command: Command, write: Write, observer: Observer
) -> None:
    file = write(jobs(20_000))
    killed = command.start(file)
    await until(lambda: observer.fetchval("SELECT count(*) > 2000 FROM headgate_job"), seconds=30)
    killed.kill()
    # Workers are done with some of them by now.
    await until(
        lambda: observer.fetchval(
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'headgate'"
            " AND datname = current_database()"
        )
    )
    before = await numbers(observer)
    assert len(before) < 20_000
    await observer.execute("DELETE FROM headgate_job")
    resumed = command.run(file)
    assert resumed.returncode == 0
    assert before + await numbers(observer) == list(range(20_000))


async def test_it_stops_at_a_bad_line_and_goes_on_in_the_mended_file(
    command: Command, write: Write, observer: Observer
) -> None:
    lines: list[Any] = [*jobs(3), {"kind": "mail", "payload": {"n": 3}, "priority": "high"}]
    stopped = command.run(write([*lines, *jobs(1)]))
    assert stopped.returncode == 1
    assert stopped.stderr.splitlines() == [
        "headgate: line 4: priority: Expected `int | null`, got `str`",
        "headgate: stopped; --from-line 4 goes on here with a mended file",
    ]
    assert stopped.stdout.startswith("3 enqueued, 1 refused; ")
    assert await numbers(observer) == [0, 1, 2]
    lines[3]["priority"] = 1
    assert command.run(write(lines), "--from-line", "4").returncode == 0
    assert await numbers(observer) == [0, 1, 2, 3]


async def test_bad_lines_can_be_skipped(command: Command, write: Write, observer: Observer) -> None:
    quarantined = fingerprint("mail", b'{"n": 3}')
    await quarantine(observer, quarantined)
    good = jobs(4)
    lines = [good[0], "{", good[1], {"kind": "mail"}, good[2], good[3]]
    done = command.run(write(lines), "--on-error", "skip")
    assert done.returncode == 1
    assert sorted(done.stderr.splitlines()) == [
        "headgate: line 2: bad json",
        "headgate: line 4: missing field `payload`",
        f"headgate: line 6: fingerprint {quarantined} is quarantined",
    ]
    assert done.stdout.startswith("3 enqueued, 3 refused; ")
    assert await numbers(observer) == [0, 1, 2]


async def test_keys_that_are_held_are_counted_and_no_mistake(
    command: Command, write: Write, observer: Observer
) -> None:
    keys = ["YQ==", "Yg==", "YQ==", "Yw=="]
    lines = [{**job, "unique_key": key} for job, key in zip(jobs(4), keys, strict=True)]
    command.run(write(lines[1:2]))
    done = command.run(write(lines))
    assert done.returncode == 0
    assert done.stdout.startswith("2 enqueued, 2 with a unique key that is held; ")
    assert sorted(await numbers(observer)) == [0, 1, 3]


async def _holds(observer: Observer, last: int) -> bool:
    return (await numbers(observer))[-1:] == [last]


async def test_a_full_queue_is_filled_and_waited_for(
    command: Command, write: Write, observer: Observer
) -> None:
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 25)")
    file = write(jobs(64))
    stopped = command.run(file)
    assert stopped.returncode == 1
    assert (
        "headgate: line 26: enqueue backpressure: queue default has 0 unfinished jobs, limit 25"
        in (stopped.stderr)
    )
    assert await numbers(observer) == list(range(25))
    waiting = command.start(file, "--on-full", "wait")
    for last in (49, 63):
        await observer.execute("DELETE FROM headgate_job")
        await until(partial(_holds, observer, last))
    done = waiting.wait()
    assert (done.returncode, done.stdout.partition(";")[0]) == (0, "39 enqueued")
    assert await numbers(observer) == list(range(50, 64))


async def test_jobs_come_from_stdin(command: Command, observer: Observer) -> None:
    lines = "".join(json.dumps(job) + "\n" for job in jobs(3))
    for expected in (3, 6):
        assert command.run("-", stdin=lines).stdout.startswith("3 enqueued; ")
        assert await count_jobs(observer) == expected
    for expected in (9, 9):
        command.run("-", "--key", "named", stdin=lines)
        assert await count_jobs(observer) == expected


def test_a_file_that_is_not_there(command: Command) -> None:
    done = command.run("nowhere.jsonl")
    assert done.returncode == 1
    assert done.stderr == "headgate: invalid request: nowhere.jsonl: No such file or directory\n"
