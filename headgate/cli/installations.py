"""The installations that a user knows by name, in one file of theirs."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from headgate.cli.control_api import Installation
from headgate.model.errors import InvalidRequest, NotFound

DEFAULT_URL: Final = "http://127.0.0.1:8080"


class Installations(msgspec.Struct, omit_defaults=True):
    """Names and what they stand for; `current` is the one to use unless told otherwise."""

    contexts: dict[str, Installation] = {}
    current: str = ""


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """`HEADGATE_CONFIG`, or `headgate/contexts.json` where the user's configuration is."""
    if given := environment.get("HEADGATE_CONFIG"):
        return Path(given)
    home = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "headgate" / "contexts.json"


def read_installations(file: Path) -> Installations:
    """What the file says; nothing when there is none. Raises `InvalidRequest`."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Installations)
    except FileNotFoundError:
        return Installations()
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"cannot read {file}: {error}") from None


def write_installations(file: Path, installations: Installations) -> None:
    """Writes the file anew, whole or not at all, for its owner's eyes: it holds tokens.

    Raises `InvalidRequest`.
    """
    content = msgspec.json.format(msgspec.json.encode(installations), indent=2)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(b"")
        beside.chmod(0o600)
        beside.write_bytes(content + b"\n")
        beside.replace(file)
    except OSError as error:
        raise InvalidRequest(f"cannot write {file}: {error}") from None


def find_installation(
    *,
    context: str | None = None,
    url: str | None = None,
    token: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Installation:
    """The one that was asked for: by URL, by name, or the current one, else the local default.

    What the command line says wins over the environment, and that over the file. The token of a
    context is its own; `HEADGATE_TOKEN` is for everything that has none. Raises `NotFound` for a
    name that stands for nothing, and `InvalidRequest`.
    """
    from_environment = environment.get("HEADGATE_TOKEN", "")
    chosen = url or (None if context else environment.get("HEADGATE_API"))
    if chosen:
        return Installation(chosen, token or from_environment)
    known = read_installations(config_file(environment))
    name = context or environment.get("HEADGATE_CONTEXT") or known.current
    if not name:
        return Installation(DEFAULT_URL, token or from_environment)
    if name not in known.contexts:
        raise NotFound(f"context {name}")
    found = known.contexts[name]
    return Installation(found.url, token or found.token or from_environment)
