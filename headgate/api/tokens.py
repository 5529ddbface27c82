"""Bearer tokens: reading them from a file, and telling a good one from all others."""

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from headgate.model.access import AccessToken, Caller, hash_token, parse_role
from headgate.model.errors import InvalidRequest, StoreUnavailable
from headgate.model.limits import check_name
from headgate.store.access_tokens import AccessTokens

STORED_FOR_MS: Final = 2_000
"""How old what is known of the database's tokens may be: a revoked one is good for so long."""

_HASH_PREFIX: Final = "sha256:"
_TOKEN_PREFIX: Final = "hg_"
_HASH_OF_NOTHING: Final = hash_token(b"")

Known: TypeAlias = tuple[bytes, Caller | None]
_UNKNOWN: Final[Known] = (bytes(len(_HASH_OF_NOTHING)), None)


def new_token() -> str:
    """A token with 256 random bits. It is shown once; what is kept is its hash."""
    return _TOKEN_PREFIX + secrets.token_urlsafe(32)


def token_line(token_hash: bytes, identity: str, role: str) -> str:
    """A token as `read_tokens` takes it."""
    return f"{identity} {role} {_HASH_PREFIX}{token_hash.hex()}"


def read_tokens(text: str) -> tuple[AccessToken, ...]:
    """The tokens of a text: `<identity> <role> sha256:<hex>` on a line, or between semicolons.

    Empty lines and those that begin with `#` do not count. Raises `InvalidRequest` with the number
    of the line and without what stands on it, which may be a secret in the wrong place.
    """
    tokens: list[AccessToken] = []
    for number, line in enumerate(text.replace(";", "\n").splitlines(), start=1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) != 3 or not parts[2].startswith(_HASH_PREFIX):
            raise InvalidRequest(f"token {number} is not `<identity> <role> sha256:<hex>`")
        identity, role, encoded = parts
        try:
            token_hash = bytes.fromhex(encoded.removeprefix(_HASH_PREFIX))
        except ValueError:
            token_hash = b""
        if len(token_hash) != len(_HASH_OF_NOTHING):
            raise InvalidRequest(f"token {number} has no hash of 64 hex digits")
        if token_hash == _HASH_OF_NOTHING:
            raise InvalidRequest(f"token {number} is the hash of an empty token")
        check_name(f"identity of token {number}", identity)
        tokens.append(AccessToken(token_hash=token_hash, identity=identity, role=parse_role(role)))
    return tuple(tokens)


class TokenDirectory:
    """The tokens of this process, and those of the database.

    Every token that is not good goes the same way, whether it never was one, has been revoked, or
    is no token at all: one hash, one look into a table whose places an attacker cannot foretell,
    one comparison in constant time.
    """

    def __init__(
        self,
        given: Iterable[AccessToken],
        stored: AccessTokens,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given = _by_hash(given)
        self._stored = stored
        self._clock = clock
        self._known: Mapping[bytes, Known] = {}
        self._reading: asyncio.Task[None] | None = None
        self._fresh_until = float("-inf")
        self._read_once = False

    async def find(self, presented: bytes) -> Caller | None:
        """Who presents this token, or None.

        Raises `StoreUnavailable` for a token that only the database could know, while that has not
        been read once; later outages leave what is known in force.
        """
        token_hash = hash_token(presented)
        caller = _find(self._given, token_hash)
        if caller is not None:
            return caller
        if self._clock() >= self._fresh_until:
            await self._read()
        return _find(self._known, token_hash)

    async def _read(self) -> None:
        # All requests that wait share one read.
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._refresh())
        try:
            await asyncio.shield(self._reading)
        except StoreUnavailable:
            if not self._read_once:
                raise

    async def _refresh(self) -> None:
        try:
            self._known = _by_hash(await self._stored.valid())
            self._read_once = True
        finally:
            # Also after a failure: a dead host must not cost every request its time limit.
            if self._read_once:
                self._fresh_until = self._clock() + STORED_FOR_MS / 1000


def _by_hash(tokens: Iterable[AccessToken]) -> dict[bytes, Known]:
    return {
        token.token_hash: (token.token_hash, Caller.of(token.identity, [token.role]))
        for token in tokens
    }


def _find(known: Mapping[bytes, Known], token_hash: bytes) -> Caller | None:
    # The table is keyed by what an attacker cannot choose byte by byte, and places its keys by a
    # secret of the process; the comparison does not depend on either.
    kept, caller = known.get(token_hash, _UNKNOWN)
    return caller if hmac.compare_digest(kept, token_hash) else None
