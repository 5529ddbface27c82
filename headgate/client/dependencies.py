"""What a handler asks for beside its payload, by the annotations of further parameters.

async def charge(ctx: JobContext, order: Order, pool: Annotated[Pool, Data()]) -> None: ...
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec

from headgate.client.errors import RegistrationError


class Data(msgspec.Struct, frozen=True):
    """Marks a parameter that gets what `Headgate.provide` was given for its type."""


class Depends(msgspec.Struct, frozen=True):
    """Marks a parameter that gets what `provider` makes for each attempt.

    The provider takes the context of the attempt, or nothing. It is a function, `async` or not; one
    that yields is continued when the handler has ended, or thrown what it raised. A `def` that
    yields runs in a thread, since it may block; another `def` is called where it stands.
    """

    provider: Callable[..., Any]


class Dependency(msgspec.Struct, frozen=True):
    """One parameter of a handler that is neither its context nor its payload."""

    name: str
    wanted: Any
    marker: Data | Depends


_MARKERS: Final = (Data, Depends)


def dependency_of(parameter: inspect.Parameter) -> Dependency | None:
    """The dependency that a parameter declares; None when it is none.

    Raises `RegistrationError` for a provider of another shape.
    """
    if get_origin(parameter.annotation) is not Annotated:
        return None
    wanted, *notes = get_args(parameter.annotation)
    markers = [note for note in notes if isinstance(note, _MARKERS) or note in _MARKERS]
    if not markers:
        return None
    if len(markers) > 1 or not isinstance(markers[0], _MARKERS):
        raise RegistrationError(f"parameter {parameter.name}: mark it with one `Data()`")
    if isinstance(markers[0], Depends):
        _takes_context(markers[0].provider)
    return Dependency(parameter.name, wanted, markers[0])


async def resolve(
    dependencies: tuple[Dependency, ...],
    provided: Mapping[Any, Any],
    context: Callable[[], Any],
    stack: AsyncExitStack,
) -> dict[str, Any]:
    """The values of the parameters, by name; what must end with the attempt is put on `stack`.

    Raises what a provider raises, with the parameter's name in a note.
    """
    values: dict[str, Any] = {}
    for dependency in dependencies:
        try:
            if isinstance(dependency.marker, Data):
                values[dependency.name] = provided[dependency.wanted]
            else:
                provider = dependency.marker.provider
                values[dependency.name] = await _provide(provider, context, stack)
        except Exception as error:
            error.add_note(f"for the parameter {dependency.name} of the handler")
            raise
    return values


async def _provide(
    provider: Callable[..., Any], context: Callable[[], Any], stack: AsyncExitStack
) -> Any:
    arguments = (context(),) if _takes_context(provider) else ()
    if inspect.isasyncgenfunction(provider):
        return await stack.enter_async_context(asynccontextmanager(provider)(*arguments))
    if inspect.isgeneratorfunction(provider):
        manager = contextmanager(provider)(*arguments)
        return await stack.enter_async_context(_in_thread(manager))
    value = provider(*arguments)
    return await value if inspect.isawaitable(value) else value


@asynccontextmanager
async def _in_thread(manager: AbstractContextManager[Any]) -> AsyncIterator[Any]:
    value = await asyncio.to_thread(manager.__enter__)
    try:
        yield value
    except BaseException as raised:
        ending = (type(raised), raised, raised.__traceback__)
        if not await asyncio.to_thread(manager.__exit__, *ending):
            raise
    else:
        await asyncio.to_thread(manager.__exit__, None, None, None)


def _takes_context(provider: Callable[..., Any]) -> bool:
    try:
        required = [
            parameter
            for parameter in inspect.signature(provider).parameters.values()
            if parameter.default is parameter.empty
        ]
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"provider {provider!r} is not a function: {error}") from error
    if len(required) > 1:
        raise RegistrationError(f"provider {provider!r} takes the context, or nothing")
    return bool(required)
