"""JSON bodies, decoded into structs; each way to be wrong has one status and one text."""

import re
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from headgate.api.errors import Refusal
from headgate.api.wire import decode_hook

MAX_BODY_BYTES: Final = 2_097_152

_JSON: Final = re.compile(
    rb"[ \t]*application/(?:[!#$%&'*+.^_`|~0-9a-z-]+\+)?json[ \t]*(?:;.*)?", re.IGNORECASE
)
_MISSING: Final = re.compile(r"Object missing required field `([^`]+)`")

Body = TypeVar("Body", bound=msgspec.Struct)


class BodyReader(Generic[Body]):
    """Reads request bodies into one struct.

    Unknown fields are ignored, of a field that stands twice the last one counts, and a type is
    never coerced: 1.0 is no integer, an array no object, null only where the field says so.
    """

    def __init__(self, struct: type[Body], max_bytes: int = MAX_BODY_BYTES) -> None:
        self.max_bytes: Final = max_bytes
        self._decoder = msgspec.json.Decoder(struct, dec_hook=decode_hook)

    async def read(self, request: Request) -> Body:
        """The body of `request`.

        Raises `Refusal`: 415 for another media type, 413 for too many bytes, 400 for what is not
        JSON in UTF-8, 422 for JSON that does not fit the struct.
        """
        headers: Mapping[bytes, bytes] = dict(reversed(request.scope["headers"]))
        if _JSON.fullmatch(headers.get(b"content-type", b"")) is None:
            raise Refusal(415, "expected Content-Type: application/json")
        length = headers.get(b"content-length", b"")
        # A caller who announces too much is told at once, before it sends it all.
        if length.isdigit() and (len(length) > 18 or int(length) > self.max_bytes):
            raise self._too_large()
        return self.decode(await self._receive(request))

    def decode(self, body: bytes) -> Body:
        """The struct in `body`; raises `Refusal` 400 or 422."""
        try:
            # The decoder does not look into the strings of fields that it ignores.
            if not body.isascii():
                body.decode()
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            missing = _MISSING.match(str(error))
            message = f"missing field `{missing[1]}`" if missing else "invalid request body"
            raise Refusal(422, message) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refusal(400, "bad json") from None

    async def _receive(self, request: Request) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.max_bytes:
                raise self._too_large()
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _too_large(self) -> Refusal:
        return Refusal(413, f"request body exceeds {self.max_bytes} bytes")
