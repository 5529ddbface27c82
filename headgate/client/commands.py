"""Jobs that a program runs, in a process of its own and with an environment of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headgate.client.errors import RegistrationError
from headgate.client.task import Execution, Task


class Command(msgspec.Struct, frozen=True):
    """The program with its arguments; never a shell. `environment` is all there is."""

    arguments: tuple[str, ...]
    environment: dict[str, str]


class CommandTask(Task[Any]):
    """A task that a command runs. Made by `Headgate.isolated`, not by hand."""

    def __init__(
        self,
        app: Any,
        kind: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        **settings: Any,
    ) -> None:
        """Raises `RegistrationError` for what cannot be used."""
        if isinstance(arguments, str) or not arguments:
            raise RegistrationError(f"task {kind}: argv is a list of the program and its arguments")
        if any("\0" in part for part in (*arguments, *environment, *environment.values())):
            raise RegistrationError(f"task {kind}: a command cannot contain NUL")
        self.command = Command(tuple(arguments), dict(environment))
        super().__init__(app, kind, _run_elsewhere, **settings)

    def _execution(self, process: bool) -> Execution:
        return Execution.COMMAND


async def _run_elsewhere(payload: Any) -> None:
    raise RegistrationError("a command is run by a worker")
