"""Query strings, read by the types of a struct.

The struct is the declaration: its fields are the parameters, their types how they are read, their
defaults what absence means, and the OpenAPI document is made from the same fields.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect

from headgate.api.errors import Refusal
from headgate.api.wire import U64

Parameters = TypeVar("Parameters", bound=msgspec.Struct)

_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,20})")


def parse_integer(text: str, lowest: int, highest: int) -> int | None:
    """The number that `text` spells, or None when it spells none within the bounds.

    ASCII digits with an optional sign; the minus only where the type has negative numbers. Python's
    own `int` takes spaces, underscores and other digits too.
    """
    match = _INTEGER.fullmatch(text)
    if match is None or (match[1] == "-" and lowest >= 0):
        return None
    value = int(match[1] + match[2])
    return value if lowest <= value <= highest else None


def _form_decode(text: bytes) -> str:
    text = text.replace(b"+", b" ")
    if b"%" in text:
        text = unquote_to_bytes(text)
    return text.decode(errors="replace")


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


def _integer(lowest: int, highest: int) -> Callable[[str], int | None]:
    return lambda text: parse_integer(text, lowest, highest)


def _converter(declared: inspect.Type) -> Callable[[str], Any]:
    """What reads a parameter of this type; None from it means that the text does not fit."""
    if isinstance(declared, inspect.Metadata):
        return _converter(declared.type)
    if isinstance(declared, inspect.UnionType):
        (one,) = (each for each in declared.types if not isinstance(each, inspect.NoneType))
        return _converter(one)
    if isinstance(declared, inspect.StrType):
        return str
    if isinstance(declared, inspect.BoolType):
        return _boolean
    if isinstance(declared, inspect.IntType) and None not in (declared.ge, declared.le):
        return _integer(int(declared.ge or 0), int(declared.le or 0))
    if isinstance(declared, inspect.CustomType) and declared.cls is U64:
        return _integer(0, U64.maximum)
    raise TypeError(f"a query parameter cannot be read as {declared}")


class QueryReader(Generic[Parameters]):
    """Reads query strings into one struct. Unknown parameters are ignored."""

    def __init__(self, struct: type[Parameters]) -> None:
        self._struct = struct
        info = inspect.type_info(struct)
        assert isinstance(info, inspect.StructType)
        self._converters = {field.encode_name: _converter(field.type) for field in info.fields}
        self.names: Final = tuple(self._converters)
        self.required: Final = tuple(each.encode_name for each in info.fields if each.required)

    def read(self, query_string: bytes) -> Parameters:
        """The parameters, form-decoded: `+` is a space, bytes that are not UTF-8 become U+FFFD.

        Raises `Refusal` 400 for a value that does not fit, a known parameter that stands twice
        and a required one that is missing; the first of them in the string wins, a missing one
        comes last.
        """
        values: dict[str, Any] = {}
        for pair in query_string.split(b"&"):
            encoded_name, _, encoded_value = pair.partition(b"=")
            name = _form_decode(encoded_name)
            convert = self._converters.get(name)
            if convert is None:
                continue
            if name in values:
                raise Refusal(400, "invalid query string")
            value = convert(_form_decode(encoded_value))
            if value is None:
                raise Refusal(400, f"invalid query parameter `{name}`")
            values[name] = value
        for name in self.required:
            if name not in values:
                raise Refusal(400, f"missing query parameter `{name}`")
        return self._struct(**values)
