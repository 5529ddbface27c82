"""JSON bodies, decoded into structs; each way to be wrong has one status and one text."""

import asyncio
import re
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from headgate.api.errors import Refusal
from headgate.api.wire import decode_hook

MAX_BODY_BYTES: Final = 2_097_152

PATIENCE_S: Final = 30
"""How long a client that is sending a body may pause."""

_JSON: Final = re.compile(
    rb"[ \t]*application/(?:[!#$%&'*+.^_`|~0-9a-z-]+\+)?json[ \t]*(?:;.*)?", re.IGNORECASE
)
_MISSING: Final = re.compile(r"Object missing required field `([^`]+)`")
_ENTRY: Final = re.compile(r" - at `\$\.(\w+)\[([0-9]+)\]")

Body = TypeVar("Body", bound=msgspec.Struct)


class BodyReader(Generic[Body]):
    """Reads request bodies into one struct.

    Unknown fields are ignored, of a field that stands twice the last one counts, and a type is
    never coerced: 1.0 is no integer, an array no object, null only where the field says so.

    A struct may name in `entries` the field whose entries are judged one by one: a refusal then
    tells the position of the one that does not fit.
    """

    def __init__(self, struct: type[Body], max_bytes: int = MAX_BODY_BYTES) -> None:
        self.max_bytes: Final = max_bytes
        self._decoder = msgspec.json.Decoder(struct, dec_hook=decode_hook)
        self._entries: str | None = getattr(struct, "entries", None)

    async def read(self, request: Request) -> Body:
        """The body of `request`. Raises what the two steps of it raise."""
        return self.decode(await self.receive(request))

    async def receive(self, request: Request) -> bytes:
        """The body of `request` as it was sent.

        Raises `Refusal`: 415 for another media type, 413 for too many bytes, 408 when no more of
        it comes.
        """
        headers: Mapping[bytes, bytes] = dict(reversed(request.scope["headers"]))
        if _JSON.fullmatch(headers.get(b"content-type", b"")) is None:
            raise Refusal(415, "expected Content-Type: application/json")
        length = headers.get(b"content-length", b"")
        # A caller who announces too much is told at once, before it sends it all.
        if length.isdigit() and (len(length) > 18 or int(length) > self.max_bytes):
            raise self._too_large()
        return await self._receive(request)

    def decode(self, body: bytes) -> Body:
        """The struct in `body`.

        Raises `Refusal`: 400 for what is not JSON in UTF-8, 422 for JSON that does not fit.
        """
        try:
            # The decoder does not look into the strings of fields that it ignores.
            if not body.isascii():
                body.decode()
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            missing = _MISSING.match(str(error))
            message = f"missing field `{missing[1]}`" if missing else "invalid request body"
            raise self._refusal(message, str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refusal(400, "bad json") from None

    async def _receive(self, request: Request) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    message = await request.receive()
            except TimeoutError:
                raise Refusal(
                    408, "the request body does not come", headers={"connection": "close"}
                ) from None
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.max_bytes:
                raise self._too_large()
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _refusal(self, message: str, reason: str) -> Refusal:
        refusal = Refusal(422, message)
        entry = _ENTRY.search(reason)
        if entry is not None and entry[1] == self._entries:
            refusal.body.index = int(entry[2])
        return refusal

    def _too_large(self) -> Refusal:
        return Refusal(413, f"request body exceeds {self.max_bytes} bytes")
