"""`headgate api`: the control API on a port."""

import asyncio
import importlib
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import msgspec
import typer

from headgate.api.config import ApiConfig
from headgate.api.server import listen, serve
from headgate.cli.targets import load_target
from headgate.model.errors import InvalidRequest
from headgate.store.settings import StoreSettings

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
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse every mutation, whoever asks.")
    ] = False,
    allow_unauthenticated: Annotated[
        bool,
        typer.Option(
            "--allow-unauthenticated", help="Listen where others can reach it, asking nobody."
        ),
    ] = False,
) -> None:
    """Serve the control API of the database in HEADGATE_DATABASE_URL."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    config = load_config(target) if target else ApiConfig()
    if read_only:
        config = msgspec.structs.replace(config, read_only=True)
    settings = StoreSettings.from_environment()
    with (
        listen(host, port, allow_unauthenticated=allow_unauthenticated) as listening,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        runner.run(
            serve(settings, config, listening, announce=lambda line: typer.echo(line, err=True))
        )


def load_config(target: str) -> ApiConfig:
    """The configuration that `module:attribute` names. Raises `InvalidRequest`."""
    found = load_target(target)
    config = found() if callable(found) else found
    if not isinstance(config, ApiConfig):
        raise InvalidRequest(f"{target} is no ApiConfig")
    return config
