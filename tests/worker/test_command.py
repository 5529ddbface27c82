"""`headgate worker`: what goes wrong at the start is one clear line and exit code 1."""

import secrets
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from sqlalchemy import make_url

from headgate import Envelope, Store
from headgate.testing.clones import Clones
from tests.store.rows import Observer, count_jobs
from tests.worker.conftest import StartProcess
from tests.worker.waiting import eventually

HANDLERS = """
from headgate import Headgate

app = Headgate()
number = 3

@app.task("quick")
def quick() -> None: ...
"""


def with_url(dsn: str, **changes: Any) -> str:
    return make_url(dsn).set(**changes).render_as_string(hide_password=False)


@pytest.fixture
def empty_database(headgate_clones: Clones) -> Iterator[str]:
    name = f"headgate_empty_{secrets.token_hex(4)}"
    yield headgate_clones.clone("template0", name)
    headgate_clones.drop(name)


def fails(start_process: StartProcess, *arguments: str, source: str = HANDLERS, **how: str) -> str:
    """What the command says when it ends with status 1: one line."""
    process = start_process(source, *arguments, **how)
    assert process.ended(15_000) == 1, process.output
    lines = [line for line in process.output.splitlines() if " INFO " not in line]
    assert len(lines) == 1, process.output
    return lines[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("handlers", "`handlers` is not of the form module:attribute, as in shop.jobs:app"),
        ("nowhere:app", "there is no module nowhere"),
        ("handlers.sub:app", "handlers.sub"),
        ("no.where:app", "there is no module no"),
        ("handlers:missing", "module handlers has no missing"),
        ("handlers:number", "handlers:number is a int, not a Headgate application"),
    ],
)
def test_an_application_that_is_not_there(
    start_process: StartProcess, name: str, text: str
) -> None:
    line = fails(start_process, application=name)
    assert line.startswith("headgate: ")
    assert text in line


def test_settings_that_make_no_sense(start_process: StartProcess) -> None:
    assert "concurrency must be between 1 and" in fails(start_process, "--concurrency", "0")
    assert "lease_ms must be between 100 and" in fails(start_process, "--lease-ms", "5")
    assert "queues must not contain duplicates" in fails(start_process, "--queues", "a,a")
    assert "log level `loud`" in fails(start_process, "--log-level", "loud")
    assert "nothing is kept by the name `jobs`" in fails(start_process, "--keep", "jobs=1")
    assert "`audit=x` does not say how many" in fails(start_process, "--keep", "audit=x")


def test_a_dsn_that_is_none(start_process: StartProcess) -> None:
    assert "bad conninfo" in fails(start_process, dsn="mysql://somewhere")
    assert "bad conninfo" in fails(start_process, dsn="nonsense")


def test_a_database_that_is_not_there(start_process: StartProcess, headgate_server: str) -> None:
    line = fails(start_process, dsn=with_url(headgate_server, database="no_such_database"))
    assert 'access refused: database "no_such_database" does not exist' in line


async def test_a_wrong_password(start_process: StartProcess, headgate_database: str) -> None:
    connection = await asyncpg.connect(headgate_database)
    role = f"headgate_{secrets.token_hex(4)}"
    try:
        await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'right'")
        dsn = with_url(headgate_database, username=role, password="wrong")
        assert f'password authentication failed for user "{role}"' in fails(start_process, dsn=dsn)
    finally:
        await connection.execute(f"DROP ROLE {role}")
        await connection.close()


def test_a_database_without_the_schema(start_process: StartProcess, empty_database: str) -> None:
    assert "headgate migrate up" in fails(start_process, dsn=empty_database)


async def test_a_database_that_is_too_new(
    start_process: StartProcess, headgate_database: str
) -> None:
    connection = await asyncpg.connect(headgate_database)
    await connection.execute(
        "UPDATE headgate_compatibility SET revision = '9999', minimum_revision = '9998'"
    )
    await connection.close()
    assert "9998" in fails(start_process, dsn=headgate_database)


async def test_queues_are_those_of_the_tasks_unless_given(start_process: StartProcess) -> None:
    source = HANDLERS.replace('"quick"', '"quick", queue="slow"')
    process = start_process(source)
    await eventually(lambda: process.says("takes jobs from slow"))


async def test_an_application_may_say_where_its_database_is(
    start_process: StartProcess, headgate_database: str
) -> None:
    source = HANDLERS.replace("Headgate()", f"Headgate(dsn={headgate_database!r})")
    process = start_process(source, "--queues", "a, b", dsn="")
    await eventually(lambda: process.says("takes jobs from a, b"))


def test_a_fault_inside_of_the_module_shows_where_it_is(start_process: StartProcess) -> None:
    process = start_process("import does_not_exist\n")
    assert process.ended(15_000) == 1
    assert "import does_not_exist" in process.output


async def test_what_has_ended_is_kept_for_as_long_as_said(
    start_process: StartProcess, store: Store, observer: Observer
) -> None:
    await store.producer.enqueue([Envelope(kind="mail", queue="other")])
    await observer.execute("UPDATE headgate_job SET state = 'archived', finalized_at_ms = 1")
    process = start_process(HANDLERS, "--keep", "dead_letters=0")
    await eventually(lambda: process.says("takes jobs"))

    async def swept() -> bool:
        return any(
            each.name == "retention" and each.last_success_ms for each in await store.fleet.duties()
        )

    await eventually(swept)
    assert await count_jobs(observer) == 1
    process.kill()
    start_process(HANDLERS, "--keep", "dead_letters=60000")

    async def gone() -> bool:
        return await count_jobs(observer) == 0

    await eventually(gone, limit_ms=20_000)
