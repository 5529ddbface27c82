"""`headgate jobs`: jobs from the command line."""

import typer

from headgate.cli.jobs_import import import_jobs

application = typer.Typer(help="Put jobs in.", no_args_is_help=True, rich_markup_mode=None)

application.command("import")(import_jobs)
