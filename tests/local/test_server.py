"""The life of a server: started, attached to, held, killed, stopped."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import psycopg
import pytest
import sqlalchemy

from headgate.local import LocalServer, LocalServerError, temporary_directory
from headgate.local.cluster import RunAs
from tests.local.conftest import eventually, gone

HOLDER = """
import sys
from headgate.local import UNSAFE_BUT_FAST, LocalServer
server = LocalServer(sys.argv[1], settings=UNSAFE_BUT_FAST, remove_at_end=sys.argv[2] == "remove")
with server.hold() as status:
    print(status.dsn, flush=True)
    sys.stdin.read()
"""


async def test_data_survive_a_restart_and_the_dsn_stays(server: LocalServer) -> None:
    first = server.start()
    connection = await asyncpg.connect(first.dsn)
    await connection.execute("CREATE TABLE kept AS SELECT 41 + 1 AS value")
    await connection.close()
    assert server.stop()
    assert server.status() is None
    second = server.start()
    assert second.dsn == first.dsn
    connection = await asyncpg.connect(second.dsn)
    assert await connection.fetchval("SELECT value FROM kept") == 42
    await connection.close()


async def test_the_dsn_suits_every_driver_and_the_password_is_needed(server: LocalServer) -> None:
    with server.hold() as status:
        with psycopg.connect(status.dsn) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("off",)
        engine = sqlalchemy.create_engine(status.dsn)
        with engine.connect() as core:
            assert core.scalar(sqlalchemy.text("SELECT 1")) == 1
        engine.dispose()
        password = server.directory.password()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(status.dsn.replace(password, "guessed"))
        for name in ("password", "postgres.log"):
            assert (server.directory.root / name).stat().st_mode & 0o077 == 0


async def test_a_start_finds_what_runs_also_inside_an_event_loop(server: LocalServer) -> None:
    first = server.start()
    assert LocalServer(server.directory.root).start() == first
    assert LocalServer(server.directory.root).status() == first


def test_a_killed_server_starts_again_at_once(server: LocalServer) -> None:
    first = server.start()
    os.kill(first.pid, signal.SIGKILL)
    second = server.start()
    assert second.pid != first.pid
    assert server.status() == second


def test_a_pid_file_whose_pid_is_somebody_elses_now_is_no_obstacle(server: LocalServer) -> None:
    server.start()
    pid_file = server.directory.cluster / "postmaster.pid"
    left_behind = pid_file.read_text().splitlines()
    server.stop()
    owner = server.directory.cluster.stat()
    run_as: RunAs = {}
    if os.geteuid() == 0:
        run_as = {"user": owner.st_uid, "group": owner.st_gid}
    with subprocess.Popen(["sleep", "60"], cwd="/", **run_as) as other:
        pid_file.write_text("\n".join([str(other.pid), *left_behind[1:]]) + "\n")
        assert server.status() is None
        assert not server.stop()
        assert server.start().pid != other.pid
        assert other.poll() is None
        other.kill()


def test_a_copied_directory_does_not_pass_for_the_original(
    server: LocalServer, tmp_path: Path
) -> None:
    server.start()
    shutil.copytree(server.directory.root, tmp_path / "copy")
    assert LocalServer(tmp_path / "copy").status() is None


def test_a_held_server_ends_with_its_last_holder(server: LocalServer) -> None:
    other = LocalServer(server.directory.root)
    with server.hold() as first:
        with other.hold() as second:
            assert second == first
        assert server.status() == first
    eventually(lambda: gone(server))


def test_a_held_server_that_is_started_stays(server: LocalServer) -> None:
    with server.hold() as held:
        assert LocalServer(server.directory.root).start() == held
    assert server.status() == held
    assert server.stop()
    assert gone(server)


def test_a_reserved_server_outlives_the_holder_that_started_it(server: LocalServer) -> None:
    with server.reserve():
        assert server.status() is None
        with server.hold() as held:
            pass
        assert server.status() == held
    eventually(lambda: gone(server))


@pytest.mark.parametrize("mode", ["keep", "remove"])
def test_a_server_ends_when_its_owner_is_killed(environment: Mapping[str, str], mode: str) -> None:
    path = temporary_directory(in_memory=True)
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline().startswith(b"postgresql://")
        server = LocalServer(path)
        status = server.status()
        assert status is not None
        owner.kill()
        eventually(lambda: gone(server))
        with pytest.raises(ProcessLookupError):
            os.kill(status.pid, 0)
        eventually(lambda: path.exists() == (mode == "keep"))
    finally:
        owner.kill()
        owner.communicate()
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent")
def test_a_server_ends_when_its_guardian_is_killed(server: LocalServer) -> None:
    with server.hold() as status:
        stat = Path(f"/proc/{status.pid}/stat").read_text()
        guardian = int(stat.rpartition(")")[2].split()[1])
        os.kill(guardian, signal.SIGKILL)
        eventually(lambda: gone(server))


def test_a_server_that_cannot_start_says_why(data_dir: Path) -> None:
    broken = LocalServer(data_dir, settings={"fsync": "off", "shared_buffers": "plenty"})
    with pytest.raises(LocalServerError, match='invalid value for parameter "shared_buffers"'):
        broken.start()


def test_a_directory_of_something_else_is_left_alone(data_dir: Path) -> None:
    (data_dir / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(LocalServerError, match="holds something else"):
        LocalServer(data_dir).start()
    assert [path.name for path in data_dir.iterdir()] == ["thesis.txt"]


def test_a_cluster_of_another_major_version_is_named(server: LocalServer) -> None:
    server.start()
    server.stop()
    (server.directory.cluster / "PG_VERSION").write_text("9\n")
    with pytest.raises(LocalServerError, match=r"was made by PostgreSQL 9, these programs are \d+"):
        server.start()
