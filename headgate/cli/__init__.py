"""The `headgate` command. Each noun of it is a module of this package."""

from headgate.cli.main import main

__all__ = ["main"]
