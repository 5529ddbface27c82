"""Requests that may be repeated: they act once and are answered alike."""

import hashlib
from typing import Final

import msgspec

# Those of access and of load may be answered otherwise the next time.
_UNDETERMINED: Final = frozenset({401, 403, 429})


def is_kept(status: int) -> bool:
    """Whether an answer of this status is the answer to every repetition."""
    return 200 <= status < 500 and status not in _UNDETERMINED


class MutationRequest(msgspec.Struct, kw_only=True, frozen=True):
    """What tells a repetition from another request.

    `route` is the pattern of the path, `content` everything else that was said: the path, the query
    and the body. The same key on the same route with other content is a mistake of the caller.
    """

    identity: str
    method: str
    route: str
    key: str
    content: tuple[bytes, ...]

    @property
    def hash(self) -> bytes:
        """Of the content; parts cannot be shifted from one to the next."""
        digest = hashlib.sha256()
        for part in self.content:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.digest()

    def lock_number(self, schema: str) -> int:
        """The number to lock while the request is carried out, in one installation."""
        digest = hashlib.sha256()
        for part in (schema, self.identity, self.method, self.route, self.key):
            encoded = part.encode(errors="surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little"))
            digest.update(encoded)
        return int.from_bytes(digest.digest()[:8], "little", signed=True)


class StoredAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """An answer as it was sent."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""


class Answered(msgspec.Struct, frozen=True):
    """The answer to a request. `replayed`: an earlier one was answered so, this one did nothing."""

    answer: StoredAnswer
    replayed: bool = False
