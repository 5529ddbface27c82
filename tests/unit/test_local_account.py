"""Who runs a local server, and where that account can go."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.local import LocalServerError, account
from headgate.local.account import Account, closed_to, service_account

STRANGER = Account("stranger", 54_321, 54_321)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory whose parents everybody can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


@pytest.mark.parametrize(
    ("mode", "is_open"), [(0o701, True), (0o711, True), (0o700, False), (0o776, False)]
)
def test_a_stranger_needs_the_bit_for_others(place: Path, mode: int, is_open: bool) -> None:
    place.chmod(mode)
    assert closed_to(STRANGER, place) == (None if is_open else place)


def test_the_outermost_closed_directory_is_named(place: Path) -> None:
    inner = place / "outer" / "inner"
    inner.mkdir(parents=True)
    place.chmod(0o755)
    (place / "outer").chmod(0o700)
    inner.chmod(0o700)
    assert closed_to(STRANGER, inner) == place / "outer"


def test_owner_and_group_have_bits_of_their_own(place: Path) -> None:
    found = place.stat()
    place.chmod(0o617)
    assert closed_to(Account("owner", found.st_uid, 54_321), place) == place
    assert closed_to(Account("member", 54_321, found.st_gid), place) is None


def test_a_normal_user_runs_the_server_himself(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert service_account(place, place / "cluster") is None


def test_root_needs_an_account_that_exists(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(account, "CANDIDATES", ("no-such-user",))
    with pytest.raises(LocalServerError, match="there is no user no-such-user for it"):
        service_account(place / "none", place / "none" / "cluster")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_root_runs_the_server_as_the_owner_of_the_directory(place: Path) -> None:
    assert service_account(place, place / "cluster") is not None
    os.chown(place, 1, 1)
    chosen = service_account(place, place / "cluster")
    assert chosen is not None
    assert chosen.uid == 1
    os.chown(place, 54_321, 54_321)
    with pytest.raises(LocalServerError, match="belongs to uid 54321, which has no name"):
        service_account(place, place / "cluster")
    os.chown(place, 0, 0)
