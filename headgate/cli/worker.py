"""`headgate worker`: run the handlers of an application."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from headgate.cli.metrics import serve_metrics
from headgate.cli.targets import load_target
from headgate.client.application import Headgate
from headgate.model.errors import HeadgateError, InvalidRequest
from headgate.model.retention import RetentionPeriods
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.worker.collector import spare_collector
from headgate.worker.config import WorkerConfig
from headgate.worker.signals import obeying_signals
from headgate.worker.worker import Worker

EXIT_FAILED: Final = 1


def worker(
    application: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:APP",
            help="The application, such as `shop.jobs:app`. The current directory is importable.",
        ),
    ],
    dsn: Annotated[
        str | None,
        typer.Option(
            help="The database; otherwise the application's, or HEADGATE_DATABASE_URL.",
        ),
    ] = None,
    queues: Annotated[
        str | None,
        typer.Option(
            help="Queues to take jobs from, separated by commas; by default those of its tasks,"
            " schedules and workflows."
        ),
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Handlers that run at a time.")] = None,
    lease_ms: Annotated[
        int | None, typer.Option(help="How long a job stays with a worker that says nothing.")
    ] = None,
    shutdown_timeout_ms: Annotated[
        int | None, typer.Option(help="How long the first signal waits for running handlers.")
    ] = None,
    worker_id: Annotated[str | None, typer.Option(help="Who this worker is.")] = None,
    no_duties: Annotated[
        bool, typer.Option("--no-duties", help="Leave reclaiming and promoting to others.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=MS",
            help="How long duties keep what has ended, such as dead_letters=86400000; 0 is for"
            " ever. May be repeated.",
            show_default=False,
        ),
    ] = None,
    no_sync_schedules: Annotated[
        bool,
        typer.Option("--no-sync-schedules", help="Leave the declared schedules as they are."),
    ] = False,
    prune_schedules: Annotated[
        bool,
        typer.Option(
            "--prune-schedules", help="Remove schedules that the application declared once."
        ),
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Serve what it does to Prometheus on this port."),
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="The address of that port.")] = "127.0.0.1",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the handlers of an application until a signal ends it.

    SIGTERM or SIGINT lets running handlers finish, a second one releases their jobs at once.
    SIGUSR1 stops taking jobs, SIGUSR2 takes them again.
    """
    _configure_logging(log_level)
    app = load_application(application)
    given = {
        "queues": None if queues is None else tuple(name.strip() for name in queues.split(",")),
        "concurrency": concurrency,
        "lease_ms": lease_ms,
        "shutdown_timeout_ms": shutdown_timeout_ms,
        "worker_id": worker_id,
        "duties": False if no_duties else None,
        "sync_schedules": False if no_sync_schedules else None,
        "prune_schedules": prune_schedules or None,
    }
    config = WorkerConfig.from_environment(
        {**os.environ, **_kept(keep or [])},
        given={name: value for name, value in given.items() if value is not None},
    )
    settings = _settings(app, dsn)
    if metrics_port is not None:
        serve_metrics(app, metrics_host, metrics_port)
    spare_collector()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_run(app, settings, config))


def _kept(given: list[str]) -> dict[str, str]:
    """The variables of the environment that would say the same."""
    variables = {}
    for each in given:
        name, _, period = each.partition("=")
        if f"{name}_ms" not in RetentionPeriods.__struct_fields__:
            known = ", ".join(n.removesuffix("_ms") for n in RetentionPeriods.__struct_fields__)
            raise InvalidRequest(f"nothing is kept by the name `{name}`; there are {known}")
        if not (period.isascii() and period.isdigit()):
            raise InvalidRequest(f"`{each}` does not say how many milliseconds")
        variables[f"HEADGATE_KEEP_{name.upper()}_MS"] = period
    return variables


def load_application(name: str) -> Headgate:
    """The application that `module:attribute` names.

    Raises `HeadgateError` with what is wrong with the name; what the module itself raises passes.
    """
    app = load_target(name)
    if not isinstance(app, Headgate):
        raise InvalidRequest(f"{name} is a {type(app).__name__}, not a Headgate application")
    return app


def _settings(app: Headgate, dsn: str | None) -> StoreSettings:
    if dsn is not None:
        return StoreSettings.from_environment({**os.environ, "HEADGATE_DATABASE_URL": dsn})
    return app.settings or StoreSettings.from_environment()


async def _run(app: Headgate, settings: StoreSettings, config: WorkerConfig) -> None:
    async with await Store.open(settings) as store:
        running = Worker(app, store, config)
        try:
            with obeying_signals(running):
                await running.run()
        except HeadgateError as error:
            if running.abandoned:
                typer.echo(f"headgate: {error}", err=True)
                _leave(EXIT_FAILED)
            raise
        if running.abandoned:
            _leave(0)


def _leave(status: int) -> None:
    """Ends the process though handlers run that ignore their cancellation.

    The event loop would wait for them for ever.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _configure_logging(level: str) -> None:
    known = logging.getLevelNamesMapping()
    if level.upper() not in known:
        raise InvalidRequest(f"log level `{level}` is not debug, info, warning or error")
    logging.basicConfig(
        level=known[level.upper()],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop
