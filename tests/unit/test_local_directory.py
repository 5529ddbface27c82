"""The files of a data directory, and the locks among them."""

import os
import socket
from pathlib import Path

import pytest

from headgate.local import LocalServer, LocalServerError, reachable_directory
from headgate.local.directory import DataDirectory, Postmaster
from headgate.local.locks import is_locked, locked, open_lock, try_lock


def test_the_password_is_generated_once_and_private(tmp_path: Path) -> None:
    password = DataDirectory(tmp_path).password()
    assert len(password) == 32
    assert DataDirectory(tmp_path).password() == password
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [
        ("password", 0o600)
    ]


def test_the_port_stays_while_it_is_free(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    port = directory.port()
    assert directory.port() == port
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        assert directory.port() != port


@pytest.mark.parametrize("text", ["", "12\n", "12\n/data\n0\nport\n\n\n\nready\n"])
def test_half_a_pid_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "postmaster.pid").write_text(text)
    assert DataDirectory(tmp_path).postmaster() is None


def test_a_pid_file_tells_pid_port_and_readiness(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    pid_file = tmp_path / "cluster" / "postmaster.pid"
    pid_file.write_text("12\n/data\n0\n5433\n\n127.0.0.1\n  1 2\nstarting\n")
    assert DataDirectory(tmp_path).postmaster() == Postmaster(pid=12, port=5433, ready=False)
    pid_file.write_text("12\n/data\n0\n5433\n\n127.0.0.1\n  1 2\nready   \n")
    assert DataDirectory(tmp_path).postmaster() == Postmaster(pid=12, port=5433, ready=True)


def test_a_directory_that_is_not_there_has_no_server(tmp_path: Path) -> None:
    for path in (tmp_path / "none", Path(__file__) / "below a file"):
        assert LocalServer(path).status() is None
        assert LocalServer(path).stop() is False


def test_a_relative_directory_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = DataDirectory("data")
    monkeypatch.chdir("/")
    assert directory.root == tmp_path / "data"


def test_a_place_that_the_server_can_enter_is_kept() -> None:
    assert reachable_directory("/tmp/some/data") == Path("/tmp/some/data")


def test_a_lock_is_held_by_one_or_shared_by_many(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    with locked(path, limit_ms=0):
        assert is_locked(path)
        with pytest.raises(LocalServerError, match="has held"), locked(path, limit_ms=20):
            pass
    first, second = open_lock(path), open_lock(path)
    assert try_lock(first, shared=True)
    assert try_lock(second, shared=True)
    assert not try_lock(second)
    os.close(first)
    assert try_lock(second)
    os.close(second)
