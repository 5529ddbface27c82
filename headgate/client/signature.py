"""What a handler's parameters say: whether it wants the context, and the type of its payload."""

import inspect
from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.client.dependencies import Dependency, dependency_of
from headgate.client.errors import RegistrationError


class HandlerContext:
    """What a handler may ask for beside its payload; the worker fills it with life."""

    __slots__ = ()


CONTEXT_NAME: Final = "ctx"


class NoPayload:
    """Stands for the payload type of a handler that takes none."""


class Signature(msgspec.Struct, frozen=True):
    """How to call a handler. `payload_type` is `NoPayload` when it takes none."""

    is_async: bool
    takes_context: bool
    payload_type: Any
    dependencies: tuple[Dependency, ...] = ()

    @property
    def takes_payload(self) -> bool:
        return self.payload_type is not NoPayload


def read_signature(handler: Callable[..., Any]) -> Signature:
    """Reads a function of `([ctx], [payload], [dependencies])`.

    Raises `RegistrationError` for any other shape.
    """
    name = getattr(handler, "__qualname__", repr(handler))
    if inspect.isasyncgenfunction(handler) or inspect.isgeneratorfunction(handler):
        raise RegistrationError(f"handler {name} yields; a handler is a plain function")
    try:
        parameters = list(inspect.signature(handler, eval_str=True).parameters.values())
    except NameError as error:
        raise RegistrationError(
            f"handler {name}: annotation {error.name!r} cannot be resolved;"
            " import it or define it at module level"
        ) from error
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"handler {name} is not a function: {error}") from error
    takes_context = bool(parameters) and _asks_for_context(parameters[0])
    dependencies = {each.name: dependency_of(each) for each in parameters[takes_context:]}
    wanted = [
        _payload_candidate(name, each)
        for each in parameters[takes_context:]
        if dependencies[each.name] is None
    ]
    named = [parameter for parameter in wanted if parameter is not None]
    if len(named) > 1:
        raise RegistrationError(
            f"handler {name} takes {len(named)} payload parameters; it takes one at most,"
            " for more values use one structure"
        )
    return Signature(
        is_async=_is_async(handler),
        takes_context=takes_context,
        payload_type=_annotation(named[0]) if named else NoPayload,
        dependencies=tuple(each for each in dependencies.values() if each is not None),
    )


def _asks_for_context(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if isinstance(annotation, type) and issubclass(annotation, HandlerContext):
        return True
    return parameter.name == CONTEXT_NAME


def _payload_candidate(name: str, parameter: inspect.Parameter) -> inspect.Parameter | None:
    if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        return parameter
    if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty:
        return None
    raise RegistrationError(f"handler {name}: parameter {parameter.name} cannot be filled")


def _annotation(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is parameter.empty else parameter.annotation


def _is_async(handler: Callable[..., Any]) -> bool:
    call = getattr(handler, "__call__", None)  # noqa: B004  # an object may have an async one
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)
