"""`headgate archive` and `headgate indexes` as they are typed."""

import sys
from collections.abc import Callable

import asyncpg
import pytest

from headgate.cli import main
from headgate.local.connection import blocking
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

Outcome = tuple[int, str, str]
Type = Callable[..., Outcome]


@pytest.fixture
def headgate(
    headgate_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Type:
    """Runs the command with these arguments; its exit code, stdout and stderr."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", headgate_database)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["headgate", *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        return code, *capsys.readouterr()

    return run


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()


def test_which_queues_are_archived(headgate: Type) -> None:
    assert headgate("archive", "keep", "mail", "86400000") == (0, "", "")
    assert headgate("archive", "keep", "bulk", "1000") == (0, "", "")
    assert headgate("archive", "policies") == (0, "bulk  1000\nmail  86400000\n", "")
    assert headgate("archive", "keep", "bulk", "--off") == (0, "", "")
    assert headgate("archive", "policies")[1] == "mail  86400000\n"
    for arguments in (("mail",), ("mail", "5", "--off")):
        code, _, told = headgate("archive", "keep", *arguments)
        assert (code, told) == (
            1,
            "headgate: invalid request: say for how many milliseconds, or --off\n",
        )
    assert headgate("archive", "keep", "mail", "0")[2] == (
        "headgate: invalid request: queue and archive retention >= 1ms are required\n"
    )


def test_months_of_the_archive(headgate: Type, headgate_database: str) -> None:
    async def prepare() -> list[str]:
        async with Store(StoreSettings(dsn=headgate_database)) as store:
            return await store.archive.prepare_months()

    made = blocking(prepare())
    code, told, _ = headgate("archive", "months")
    rows = [line.split()[:3] for line in told.splitlines()[1:]]
    assert (code, rows) == (0, [[month, "open", "unknown"] for month in made])
    assert headgate("archive", "prune", made[0])[2] == (
        "headgate: invalid request: archive partition is open or still contains retained rows\n"
    )
    blocking(
        execute(
            headgate_database,
            "CREATE TABLE headgate_job_archive_202001 PARTITION OF headgate_job_archive"
            " FOR VALUES FROM (1577836800000) TO (1580515200000)",
        )
    )
    assert headgate("archive", "prune", "202001") == (0, "deleted 0 jobs of 202001\n", "")
    assert headgate("archive", "prune", "last")[0] == 1


def test_indexes_are_checked_and_rebuilt(headgate: Type, headgate_database: str) -> None:
    code, told, _ = headgate("indexes", "check")
    assert code == 0
    assert "headgate_job_pkey" in told
    blocking(
        execute(
            headgate_database,
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'headgate_job_state'::regclass",
        )
    )
    code, told, _ = headgate("indexes", "check")
    [broken] = [line for line in told.splitlines() if " invalid " in line]
    assert (code, broken.split()[0]) == (1, "headgate_job_state")
    assert headgate("indexes", "rebuild", "--invalid")[:2] == (0, "rebuilt headgate_job_state\n")
    assert headgate("indexes", "check")[0] == 0
    assert headgate("indexes", "rebuild")[2] == (
        "headgate: invalid request: say which indexes, --invalid or --all\n"
    )
    assert headgate("indexes", "rebuild", "other")[2] == (
        "headgate: invalid request: index other is not a maintainable Headgate index\n"
    )
