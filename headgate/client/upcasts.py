"""How payloads that were stored by an older version of a task become payloads of today.

A step leads from one version to a later one; several make a chain, so that a form that is gone need
be known in one place only.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.client.errors import RegistrationError
from headgate.client.payloads import PayloadCodec, UndecodablePayload
from headgate.model.errors import InvalidRequest

Upcast = Callable[[bytes], Any]

_encode: Final = msgspec.json.Encoder().encode


class _Step(msgspec.Struct, frozen=True):
    upcast: Upcast
    to: int


class Upcasts:
    """The steps of one task to `version`, the one it has today."""

    def __init__(self, kind: str, version: int, codec: PayloadCodec) -> None:
        self._kind = kind
        self._version = version
        self._codec = codec
        self._steps: dict[int, _Step] = {}

    def check(self, version: int, to: int) -> None:
        """Raises `RegistrationError` when no step can lead from `version` to `to`."""
        if not 1 <= version < to <= self._version:
            raise RegistrationError(
                f"task {self._kind}: upcast from version {version} does not lead up to {to}"
                f" and so to {self._version}"
            )
        if version in self._steps:
            raise RegistrationError(
                f"task {self._kind}: upcast from version {version} exists already"
            )

    def add(self, version: int, to: int, upcast: Upcast) -> None:
        """One more step."""
        self.check(version, to)
        self._steps[version] = _Step(upcast, to)

    def check_complete(self) -> None:
        """Raises `RegistrationError` for a step behind which the chain breaks off."""
        for version, step in self._steps.items():
            if step.to != self._version and step.to not in self._steps:
                raise RegistrationError(
                    f"task {self._kind}: upcast from version {version} leads to {step.to},"
                    " and nothing leads on from there"
                )

    def payload(self, encoded: bytes, version: int) -> Any:
        """The payload of today in the bytes of an older version. Raises `UndecodablePayload`."""
        value: Any = encoded
        at = version
        while at != self._version:
            step = self._steps.get(at)
            if step is None:
                raise UndecodablePayload(
                    f"payload: schema version {at} is unknown, the handler has {self._version}"
                )
            try:
                value = step.upcast(value if isinstance(value, bytes) else _encode(value))
            except Exception as error:
                raise UndecodablePayload(f"payload: upcast from version {at}: {error}") from error
            at = step.to
        # Fields are judged as those of a stored payload are.
        if isinstance(value, dict):
            try:
                return self._codec.decode(self._codec.encode(self._kind, value))
            except InvalidRequest as error:
                raise UndecodablePayload(
                    f"payload: upcast from version {version}: {error}"
                ) from error
        return value
