"""Parts of the command that are imported when somebody asks for them."""

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_group


# Typer has types of its own for contexts and commands, and does not export them: hence Any.
class Lazy(TyperGroup):
    """A group that has, beside its own commands, those of modules of this package.

    Such a module has either a Typer `application` or a function of its own name.
    """

    modules: ClassVar[Mapping[str, str]]

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *self.modules]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        name = self.modules[cmd_name]
        module = importlib.import_module(f"headgate.cli.{name}")
        host = typer.Typer(rich_markup_mode=None)
        if hasattr(module, "application"):
            host.add_typer(module.application, name=cmd_name)
        else:
            host.command(cmd_name)(getattr(module, name))
        return get_group(host).commands[cmd_name]
