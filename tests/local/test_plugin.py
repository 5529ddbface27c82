"""The pytest plugin, in runs of pytest of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import pytest

from headgate.local import LocalServer
from tests.local.conftest import eventually

PLUGINS = ("-p", "headgate.testing.plugin", "-p", "no:cacheprovider")
SUITE = """
import asyncio, os, pathlib, time
import asyncpg, pytest

NOTES = pathlib.Path(os.environ["NOTES"])

async def look(dsn):
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE mine ()")
    names = await connection.fetch("SELECT datname FROM pg_database WHERE datname ~ 'template_'")
    cluster = await connection.fetchval("SHOW data_directory")
    await connection.close()
    return f"{cluster}\\n{[name for name, in names]}"

@pytest.mark.parametrize("number", range(4))
def test_look(headgate_server, headgate_database, number):
    (NOTES / f"seen-{number}").write_text(asyncio.run(look(headgate_database)))
    (NOTES / "server").write_text(headgate_server)
    while "HANG" in os.environ:
        time.sleep(0.1)
"""


def begin(notes: Path, environment: Mapping[str, str], *options: str) -> "subprocess.Popen[str]":
    (notes / "test_suite.py").write_text(SUITE)
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS, *options, str(notes)],
        cwd=notes,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A run in the background of a shell ignores interrupts, and so would its children.
        preexec_fn=_hear_interrupts,
    )


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def alone(environment: Mapping[str, str], tmp_path: Path) -> dict[str, str]:
    """An environment that names no server, for a run that notes in `tmp_path` what it sees."""
    own = {"NOTES": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return {**environment, **own, "HEADGATE_TEST_DATABASE_URL": ""}


def test_workers_share_a_server_and_a_template(tmp_path: Path, alone: dict[str, str]) -> None:
    run = begin(tmp_path, alone, "-p", "xdist", "-n", "2")
    output, _ = run.communicate()
    assert run.returncode == 0, output
    seen = {(tmp_path / f"seen-{number}").read_text() for number in range(4)}
    assert len(seen) == 1
    cluster, templates = seen.pop().split("\n")
    assert templates.count("headgate_template_") == 1
    assert not Path(cluster).parent.exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_an_ended_run_takes_its_server_with_it(
    tmp_path: Path, alone: dict[str, str], how: signal.Signals
) -> None:
    run = begin(tmp_path, {**alone, "HANG": "1"})
    eventually((tmp_path / "server").exists)
    os.killpg(run.pid, how)
    run.communicate()
    cluster = Path((tmp_path / "seen-0").read_text().splitlines()[0])
    eventually(lambda: not cluster.parent.exists())
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncpg.connect((tmp_path / "server").read_text())


async def test_a_named_server_is_used_and_left_clean(
    tmp_path: Path, alone: dict[str, str], server: LocalServer
) -> None:
    with server.hold() as status:
        run = begin(tmp_path, {**alone, "HEADGATE_TEST_DATABASE_URL": status.dsn})
        output, _ = run.communicate()
        assert run.returncode == 0, output
        assert (tmp_path / "server").read_text() == status.dsn
        connection = await asyncpg.connect(status.dsn)
        names = await connection.fetch("SELECT datname FROM pg_database ORDER BY datname")
        await connection.close()
    assert [name for (name,) in names] == ["postgres", "template0", "template1"]
