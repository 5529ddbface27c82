"""`headgate api`: the control API on a port."""

import asyncio
import importlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from headgate.api.config import ApiConfig
from headgate.api.processes import Processes, take_over
from headgate.api.server import check_start, listen, serve, serving
from headgate.api.tokens import read_tokens
from headgate.cli.targets import load_target
from headgate.model.errors import InvalidRequest
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

_TOKENS: Final = "HEADGATE_TOKENS"

new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
with suppress(ImportError):  # an extra
    new_event_loop = importlib.import_module("uvloop").new_event_loop


def api(
    target: Annotated[
        str,
        typer.Argument(
            metavar="[MODULE:ATTRIBUTE]",
            help="An ApiConfig of yours, or a function that returns one.",
            show_default=False,
        ),
    ] = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8080,
    workers: Annotated[int, typer.Option(help="Processes that serve.", min=1, max=256)] = 1,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse every mutation, whoever asks.")
    ] = False,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="File of the tokens that are let in, as `headgate token` prints them;"
            f" {_TOKENS} may hold some too.",
            show_default=False,
        ),
    ] = None,
    require_token: Annotated[
        bool,
        typer.Option(
            "--require-token", help="Let nobody in without one; those of the database do."
        ),
    ] = False,
    allow_unauthenticated: Annotated[
        bool,
        typer.Option(
            "--allow-unauthenticated", help="Listen where others can reach it, asking nobody."
        ),
    ] = False,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log each request as a line of JSON.")
    ] = False,
    inherited: Annotated[
        tuple[int, int] | None,
        typer.Option(hidden=True, help="Socket and pipe of the process that started this one."),
    ] = None,
) -> None:
    """Serve the control API of the database in HEADGATE_DATABASE_URL."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    config = load_config(target) if target else ApiConfig()
    config = with_tokens(config, tokens)
    config = msgspec.structs.replace(
        config,
        read_only=read_only or config.read_only,
        require_token=require_token or config.require_token,
        access_log=access_log or config.access_log,
    )
    settings = StoreSettings.from_environment()
    if inherited is not None:
        with take_over(*inherited) as listening:
            _serve(settings, config, listening, allow_unauthenticated, announce=lambda line: None)
        return
    with listen(host, port, guarded=allow_unauthenticated or config.asks) as listening:
        if workers == 1:
            _serve(settings, config, listening, allow_unauthenticated, announce=_say)
            return
        arguments = _arguments(target, tokens, config, allow_unauthenticated)
        command = [sys.executable, "-m", "headgate.cli", *arguments]
        asyncio.run(_supervise(settings, command, workers, listening, config))


def load_config(target: str) -> ApiConfig:
    """The configuration that `module:attribute` names. Raises `InvalidRequest`."""
    found = load_target(target)
    config = found() if callable(found) else found
    if not isinstance(config, ApiConfig):
        raise InvalidRequest(f"{target} is no ApiConfig")
    return config


def with_tokens(
    config: ApiConfig, file: Path | None, environment: Mapping[str, str] = os.environ
) -> ApiConfig:
    """The configuration with the tokens of a file and of `HEADGATE_TOKENS`.

    Where either is given, a token is required, though there be none in it. Raises `InvalidRequest`.
    """
    texts = []
    if file is not None:
        try:
            texts.append(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"cannot read tokens from {file}: {error}") from None
    if environment.get(_TOKENS, "").strip():
        texts.append(environment[_TOKENS])
    if not texts:
        return config
    found = tuple(token for text in texts for token in read_tokens(text))
    return msgspec.structs.replace(config, tokens=config.tokens + found, require_token=True)


def _serve(
    settings: StoreSettings,
    config: ApiConfig,
    listening: socket.socket,
    guarded: bool,
    *,
    announce: Callable[[str], None],
) -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(settings, config, listening, guarded=guarded, announce=announce))


async def _supervise(
    settings: StoreSettings,
    command: list[str],
    count: int,
    listening: socket.socket,
    config: ApiConfig,
) -> None:
    # Looked at here, so that what waiting does not cure is said once, and not by every process.
    async with Store(settings) as store:
        await check_start(store)
    _say(serving(listening, config))
    await Processes(command, count, listening).run()


def _arguments(
    target: str, tokens: Path | None, config: ApiConfig, allow_unauthenticated: bool
) -> list[str]:
    """The same command for one of several processes; the numbers of its files come last."""
    flags = {
        "--read-only": config.read_only,
        "--require-token": config.require_token,
        "--access-log": config.access_log,
        "--allow-unauthenticated": allow_unauthenticated,
    }
    return [
        "api",
        *([target] if target else []),
        *(flag for flag, given in flags.items() if given),
        *(["--tokens", str(tokens)] if tokens is not None else []),
        "--inherited",
    ]


def _say(line: str) -> None:
    typer.echo(line, err=True)
