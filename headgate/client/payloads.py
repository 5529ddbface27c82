"""Payloads as JSON, with the type that the handler's annotation names.

A payload type is whatever msgspec can decode: a Struct, a dataclass, a TypedDict, a builtin, or
an annotated combination of them. A model of pydantic is one too, and then pydantic does the work.
"""

from typing import Any, Final, Protocol

import msgspec
from msgspec import inspect

from headgate.client.errors import RegistrationError
from headgate.client.signature import NoPayload
from headgate.model.errors import HeadgateError, InvalidRequest

_encode: Final = msgspec.json.Encoder().encode

NOTHING: Final = b"{}"
"""The payload of a job whose handler takes none."""

# msgspec says by these that a value has no JSON form.
_NOT_ENCODABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)


class UndecodablePayload(HeadgateError):
    """The stored bytes are not a payload of this task; no repetition can change that."""


class PayloadCodec(Protocol):
    """Turns payloads of one type into bytes and back."""

    def encode(self, kind: str, payload: Any) -> bytes:
        """The bytes of `payload`, which is a value of the type or its fields as a mapping.

        Raises `InvalidRequest` for what the handler could not decode, so that the producer learns
        it and not the worker.
        """

    def decode(self, encoded: bytes) -> Any:
        """The payload in `encoded`. Raises `UndecodablePayload`, whatever stood in the way."""


def codec_of(payload_type: Any) -> PayloadCodec:
    """The codec of a type. Raises `RegistrationError` for one that has no decoder."""
    if isinstance(payload_type, type) and hasattr(payload_type, "model_validate_json"):
        return ModelCodec(payload_type)
    return JsonCodec(payload_type)


class ModelCodec:
    """Payloads that are models of pydantic, which is not imported here: their class does it all."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def encode(self, kind: str, payload: Any) -> bytes:
        try:
            # A model may have been changed since it was made, or have been made unchecked.
            fields = payload.model_dump() if isinstance(payload, self._model) else payload
            encoded: str = self._model.model_validate(fields).model_dump_json()
        except ValueError as error:
            raise InvalidRequest(f"payload of {kind}: {error}") from error
        return encoded.encode()

    def decode(self, encoded: bytes) -> Any:
        try:
            return self._model.model_validate_json(encoded)
        except Exception as error:
            raise UndecodablePayload(f"payload: {error}") from error


class JsonCodec:
    """Payloads that msgspec encodes and decodes."""

    def __init__(self, payload_type: Any) -> None:
        """Raises `RegistrationError` for a type that has no decoder."""
        self._nothing = payload_type is NoPayload
        self._class = payload_type if _is_checked_by_class(payload_type) else None
        try:
            decoder = msgspec.json.Decoder(Any if self._nothing else payload_type)
            strange = _first_strange_type(inspect.type_info(payload_type), set())
        except TypeError as error:
            raise RegistrationError(f"payload type {payload_type!r}: {error}") from error
        if strange is not None and not self._nothing:
            raise RegistrationError(f"payload type {payload_type!r}: {strange!r} has no JSON form")
        self._decode = decoder.decode

    def encode(self, kind: str, payload: Any) -> bytes:
        if self._nothing:
            if payload is not None:
                raise InvalidRequest(f"payload of {kind}: the handler takes none")
            return NOTHING
        try:
            encoded = _encode(payload)
        except _NOT_ENCODABLE as error:
            raise InvalidRequest(f"payload of {kind} is not encodable: {error}") from error
        if self._class is None or type(payload) is not self._class:
            try:
                self._decode(encoded)
            except msgspec.DecodeError as error:
                raise InvalidRequest(f"payload of {kind}: {error}") from error
        return encoded

    def decode(self, encoded: bytes) -> Any:
        if self._nothing:
            return None
        try:
            return self._decode(encoded)
        except Exception as error:
            raise UndecodablePayload(f"payload: {error}") from error


def _first_strange_type(part: object, seen: set[int]) -> Any:
    """The first type inside `part` that msgspec leaves to others; None when it knows them all."""
    if isinstance(part, inspect.CustomType):
        return part.cls
    if isinstance(part, tuple):
        inside = list(part)
    elif isinstance(part, inspect.Type | inspect.Field) and id(part) not in seen:
        seen.add(id(part))
        inside = [getattr(part, name) for name in part.__struct_fields__]
    else:
        return None
    found = (_first_strange_type(each, seen) for each in inside)
    return next((strange for strange in found if strange is not None), None)


def _is_checked_by_class(payload_type: Any) -> bool:
    """Whether an instance of the class may be taken at its word."""
    return isinstance(payload_type, type) and (
        issubclass(payload_type, msgspec.Struct) or hasattr(payload_type, "__dataclass_fields__")
    )
