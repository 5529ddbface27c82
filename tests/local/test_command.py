"""`headgate local` as a user types it, in processes of its own."""

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import pytest

from headgate.local import temporary_directory
from headgate.local.account import Account, closed_to
from tests.local.conftest import COMMAND

Finished = subprocess.CompletedProcess[str]


def run(environment: Mapping[str, str], verb: str, data_dir: Path) -> Finished:
    return subprocess.run(
        [*COMMAND, verb, "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


async def test_start_status_stop(data_dir: Path, environment: Mapping[str, str]) -> None:
    started = run(environment, "start", data_dir)
    assert (started.returncode, started.stdout.count("\n")) == (0, 1), started.stderr
    connection = await asyncpg.connect(started.stdout.strip())
    await connection.close()
    status = run(environment, "status", data_dir)
    assert (status.returncode, status.stdout) == (0, started.stdout)
    stopped = run(environment, "stop", data_dir)
    assert (stopped.returncode, stopped.stderr) == (0, f"stopped: {data_dir}\n")
    again = run(environment, "stop", data_dir)
    assert (again.returncode, again.stderr) == (0, f"not running: {data_dir}\n")
    assert run(environment, "status", data_dir).returncode == 3


def test_starts_at_the_same_time_find_one_server(
    data_dir: Path, environment: Mapping[str, str]
) -> None:
    starts = [
        subprocess.Popen(
            [*COMMAND, "start", "--data-dir", str(data_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(3)
    ]
    answers = {start.communicate() for start in starts}
    assert [start.returncode for start in starts] == [0, 0, 0]
    assert len(answers) == 1


def test_an_error_is_one_line(data_dir: Path, environment: Mapping[str, str]) -> None:
    (data_dir / "other").touch()
    failed = run(environment, "start", data_dir)
    assert failed.returncode == 1
    assert failed.stderr == f"headgate: {data_dir} holds something else than a local server\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
class TestOfRoot:
    def test_a_place_that_the_server_cannot_enter_is_named(
        self, environment: Mapping[str, str]
    ) -> None:
        closed = temporary_directory()
        failed = run(environment, "start", closed / "below")
        closed.rmdir()
        assert failed.returncode == 1
        assert f"who cannot enter {closed}: choose a data directory" in failed.stderr
        assert failed.stderr.count("\n") == 1

    async def test_another_user_has_a_server_of_his_own(
        self, data_dir: Path, environment: Mapping[str, str]
    ) -> None:
        entry = pwd.getpwnam("daemon")
        user = Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
        python = interpreter_for(user)
        own = temporary_directory(in_memory=True)
        user.owns(own)
        library = sysconfig.get_path("purelib")

        def as_user(verb: str, where: Path) -> Finished:
            return subprocess.run(
                [python, "-m", "headgate.cli", "local", verb, "--data-dir", str(where)],
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                env={"PYTHONPATH": f"{environment['PYTHONPATH']}:{library}", "HOME": "/nowhere"},
                user=user.uid,
                group=user.gid,
                extra_groups=[],
            )

        try:
            started = as_user("start", own)
            assert started.returncode == 0, started.stderr
            assert (own / "cluster").stat().st_uid == user.uid
            connection = await asyncpg.connect(started.stdout.strip())
            await connection.close()
            assert as_user("stop", own).stderr == f"stopped: {own}\n"
            assert run(environment, "start", data_dir).returncode == 0
            for verb in ("start", "status"):
                failed = as_user(verb, data_dir)
                assert failed.returncode == 1
                assert failed.stderr == f"headgate: {data_dir} belongs to another user\n"
        finally:
            as_user("stop", own)
            shutil.rmtree(own, ignore_errors=True)


def interpreter_for(user: Account) -> str:
    """A Python of this version that `user` can run along with what is installed here."""
    places = [Path(sysconfig.get_path("purelib")), Path(__file__)]
    if any(closed_to(user, place.parent) for place in places):
        pytest.skip(f"{user.name} cannot read this checkout")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (
        sys.executable,
        f"/usr/bin/python{version}",
        f"/usr/local/bin/python{version}",
    ):
        path = Path(candidate)
        if path.exists() and closed_to(user, path.resolve()) is None:
            return candidate
    pytest.skip(f"no Python {version} that {user.name} can run")
