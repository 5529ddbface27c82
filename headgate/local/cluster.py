"""The files of a new cluster, made by initdb: all of them or none."""

import os
import shutil
import subprocess
from typing import TypedDict

from headgate.local.account import Account
from headgate.local.binaries import Binaries
from headgate.local.directory import DataDirectory
from headgate.local.errors import LocalServerError

ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
"""What PostgreSQL's programs see of the caller's environment: nothing that could steer them."""

SCRAM_ITERATIONS_SINCE = 16


class RunAs(TypedDict, total=False):
    """Arguments of `subprocess` that change the account."""

    user: int
    group: int
    extra_groups: list[int]


def ensure_cluster(
    directory: DataDirectory, binaries: Binaries, account: Account | None, *, durable: bool
) -> None:
    """Make the cluster of `directory` unless it is there; `durable` has it synced to the disk.

    The caller holds the start lock. Raises `LocalServerError`, also for a cluster of another major
    version, which these programs could not read.
    """
    major = directory.cluster_major()
    if major == binaries.major:
        return
    if major is not None:
        raise LocalServerError(
            f"{directory.root} was made by PostgreSQL {major}, these programs are"
            f" {binaries.major}: name the old ones in HEADGATE_POSTGRES_BIN, or dump and restore"
        )
    if directory.cluster.exists():
        raise LocalServerError(f"{directory.cluster} is there and holds no cluster")
    _initialise(directory, binaries, account, durable=durable)


def _initialise(
    directory: DataDirectory, binaries: Binaries, account: Account | None, *, durable: bool
) -> None:
    draft = directory.root / "cluster.draft"
    password_file = directory.root / "password.draft"
    command = [binaries.initdb, "-D", str(draft), "-U", "postgres", "-A", "scram-sha-256"]
    command += ["--pwfile", str(password_file), "-E", "UTF8", "--no-locale", "--no-instructions"]
    if binaries.major >= SCRAM_ITERATIONS_SINCE:
        # Iterations slow down guessing; 192 random bits are not guessed, and each connect pays.
        command += ["-c", "scram_iterations=1"]
    if not durable:
        command.append("--no-sync")
    run_as: RunAs = {}
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        directory.write(password_file, directory.password())
        if account is not None:
            account.owns(draft)
            account.owns(password_file)
            run_as = {"user": account.uid, "group": account.gid, "extra_groups": []}
        subprocess.run(
            command, check=True, capture_output=True, text=True, cwd="/", env=ENVIRONMENT, **run_as
        )
        draft.rename(directory.cluster)
    except subprocess.CalledProcessError as error:
        raise LocalServerError(_reason(error.stderr, error.returncode)) from None
    except (OSError, subprocess.SubprocessError) as error:
        name = "the caller" if account is None else account.name
        raise LocalServerError(f"cannot run initdb as {name}: {error}") from error
    finally:
        password_file.unlink(missing_ok=True)
        shutil.rmtree(draft, ignore_errors=True)


def _reason(output: str, code: int) -> str:
    lines = [line for line in output.splitlines() if "error:" in line or "FATAL" in line]
    return lines[-1] if lines else f"initdb ended with code {code}: {output.strip()[-200:]}"
