"""`headgate api`: the control API on a port."""

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import msgspec
import typer

from headgate.api.config import ApiConfig
from headgate.api.server import listen, serve
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
    """The configuration that `module:attribute` names. Raises `InvalidRequest`.

    An error inside the module passes: its traceback is what its author needs.
    """
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise InvalidRequest(f"`{target}` is not of the form module:attribute")
    # As `python -m` does: the module is looked for where the command was called.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InvalidRequest(f"there is no module {error.name}") from None
    found = getattr(module, attribute, None)
    if found is None:
        raise InvalidRequest(f"{module_name} has no {attribute}")
    config = found() if callable(found) else found
    if not isinstance(config, ApiConfig):
        raise InvalidRequest(f"{target} is no ApiConfig")
    return config
