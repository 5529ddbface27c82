"""`headgate migrate` and `alembic` as they are typed, and what each says when it fails."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import make_url

from headgate.cli import main
from headgate.local.connection import blocking
from headgate.store.revisions import NEWEST
from tests.migration.catalog import Catalog, read_catalog
from tests.migration.conftest import REPOSITORY

ALEMBIC = Path(sysconfig.get_path("scripts")) / "alembic"
NOWHERE = "postgresql://postgres@127.0.0.1:1/nowhere"

Outcome = tuple[int, str, str]
Type = Callable[..., Outcome]


@pytest.fixture
def headgate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Runs `headgate migrate` with these arguments; its exit code, stdout and stderr."""
    monkeypatch.delenv("HEADGATE_DATABASE_URL", raising=False)
    monkeypatch.delenv("HEADGATE_SCHEMA", raising=False)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["headgate", "migrate", *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        return code, *capsys.readouterr()

    return run


def test_up_status_down(
    headgate: Type, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", empty_database)
    absent = f"database  none\ncode      {NEWEST}\nminimum   none\n"
    assert headgate("status") == (0, absent, "")
    assert headgate("up") == (0, f"schema public: applied {NEWEST}\n", "")
    assert headgate("up") == (0, "schema public: nothing to apply\n", "")
    present = f"database  {NEWEST}\ncode      {NEWEST}\nminimum   {NEWEST}\n"
    assert headgate("status") == (0, present, "")
    assert headgate("status", "--schema", "other") == (0, absent, "")
    code, _, stderr = headgate("down")
    assert (code, stderr) == (
        2,
        "headgate: this deletes what is in schema public, jobs and all; say --confirm\n",
    )
    assert headgate("status") == (0, present, "")
    assert headgate("down", "--confirm") == (0, f"schema public: took back {NEWEST}\n", "")
    assert headgate("down", "--confirm") == (0, "schema public: nothing to take back\n", "")


def test_sql_needs_no_database(headgate: Type) -> None:
    code, stdout, stderr = headgate("sql", "--schema", "billing jobs")
    assert (code, stderr) == (0, "")
    assert 'CREATE TABLE "billing jobs".headgate_job (' in stdout
    code, stdout, _ = headgate("sql", "--since", NEWEST)
    assert (code, "headgate" in stdout) == (0, False)
    assert headgate("sql", "--since", "0042")[0] == 1


@pytest.mark.parametrize("verb", ["up", "status", "down"])
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "say --database-url or set HEADGATE_DATABASE_URL"),
        (["--database-url", "nonsense"], 2, "bad conninfo"),
        (["--database-url", "mysql://host/name"], 2, "`mysql` is not postgresql"),
        (["--database-url", "postgresql://host:port/name"], 2, "bad conninfo"),
        (["--database-url", NOWHERE, "--schema", ""], 2, "schema must not be empty"),
        (["--database-url", NOWHERE, "--schema", "s" * 64], 2, "at most 63 bytes"),
        (["--database-url", NOWHERE], 1, "no connection"),
    ],
)
def test_a_failure_is_one_line(
    headgate: Type, verb: str, arguments: list[str], code: int, said: str
) -> None:
    confirm = ["--confirm"] if verb == "down" else []
    outcome, stdout, stderr = headgate(verb, *arguments, *confirm)
    assert (outcome, stdout) == (code, "")
    assert stderr.startswith("headgate: ")
    assert said in stderr
    assert stderr.count("\n") == 1


def test_a_database_that_refuses_is_one_line(headgate: Type, headgate_server: str) -> None:
    url = make_url(headgate_server)
    strangers = {
        "does not exist": url.set(database="headgate_no_such_database"),
        "headgate_no_such_role": url.set(username="headgate_no_such_role", password="wrong"),
    }
    for said, stranger in strangers.items():
        dsn = stranger.render_as_string(hide_password=False)
        code, stdout, stderr = headgate("up", "--database-url", dsn)
        assert (code, stdout, stderr.count("\n")) == (1, "", 1)
        assert stderr.startswith("headgate: store unavailable: access refused: ")
        assert said in stderr


@pytest.mark.parametrize("arguments", [["up"], ["down", "--confirm"]])
def test_an_unknown_revision_is_one_line(
    headgate: Type, headgate_database: str, arguments: list[str]
) -> None:
    blocking(execute(headgate_database, "UPDATE headgate_schema_version SET version_num = '0042'"))
    assert headgate(*arguments, "--database-url", headgate_database) == (
        1,
        "",
        "headgate: the database is at revision 0042, which this code does not know;"
        f" the newest that it knows is {NEWEST}\n",
    )


@pytest.mark.parametrize("form", ["postgresql", "postgres", "postgresql+asyncpg"])
def test_alembic_in_the_repository_does_the_same(
    empty_database: str, headgate_database: str, form: str
) -> None:
    dsn = make_url(empty_database).set(drivername=form).render_as_string(hide_password=False)

    def alembic(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ALEMBIC, *arguments],
            cwd=REPOSITORY,
            env={key: value for key, value in environment(dsn).items() if key != "PYTHONPATH"},
            capture_output=True,
            text=True,
            check=False,
        )

    assert alembic("upgrade", "head").returncode == 0
    assert catalog(empty_database) == catalog(headgate_database)
    if form == "postgresql":
        checked = alembic("check")
        assert (checked.returncode, checked.stdout) == (
            0,
            "No new upgrade operations detected.\n",
        ), checked.stderr
        assert alembic("current").stdout == f"{NEWEST} (head)\n"
        assert alembic("downgrade", "base").returncode == 0
        assert catalog(empty_database) == frozenset()


def test_a_wheel_carries_its_revisions(
    empty_database: str, headgate_database: str, tmp_path: Path
) -> None:
    pytest.importorskip("hatchling")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(installed)
    assert "headgate/alembic/versions/0001_baseline.py" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("alembic/")]
    where = "import headgate.store.migration as m; print(m._folder())"
    command = "import sys; from headgate.cli import main; main()"
    answers = [
        subprocess.run(
            [sys.executable, "-c", *arguments],
            cwd=tmp_path,
            env=environment(empty_database, PYTHONPATH=str(installed)),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for arguments in ([where], [command, "migrate", "up"])
    ]
    assert answers == [
        f"{installed / 'headgate' / 'alembic'}\n",
        f"schema public: applied {NEWEST}\n",
    ]
    assert catalog(empty_database) == catalog(headgate_database)


def catalog(dsn: str) -> Catalog:
    return blocking(read_catalog(dsn))


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()


def environment(dsn: str, **more: str) -> Mapping[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key != "HEADGATE_SCHEMA"}
    return {
        **inherited,
        "HEADGATE_DATABASE_URL": dsn,
        "PYTHONPATH": str(REPOSITORY),
        **more,
    }
