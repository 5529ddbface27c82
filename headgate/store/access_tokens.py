"""The access tokens that are kept in the database, beside those that a process is started with."""

from typing import Final

from headgate.model.access import AccessToken, Role
from headgate.model.errors import NotFound
from headgate.model.limits import check_name
from headgate.queries.access_tokens import add_token, all_tokens, revoke_tokens, valid_tokens
from headgate.store.database import Executor, Row

MAX_TOKENS: Final = 10_000


class AccessTokens:
    """Whoever holds one of these tokens may use the control API. Raises `StoreUnavailable`."""

    def __init__(self, database: Executor) -> None:
        self._database = database

    async def valid(self) -> list[AccessToken]:
        """The tokens that are not revoked; the newest 10,000."""
        rows = await self._database.fetch(valid_tokens(), {"page_size": MAX_TOKENS})
        return [_token(row) for row in rows]

    async def all(self) -> list[AccessToken]:
        """Revoked ones too, newest first, up to 10,000."""
        rows = await self._database.fetch(all_tokens(), {"page_size": MAX_TOKENS})
        return [_token(row) for row in rows]

    async def add(self, token_hash: bytes, identity: str, role: Role) -> None:
        """Lets whoever holds the token of this hash in. Raises `InvalidRequest`."""
        check_name("identity", identity)
        await self._database.fetch(
            add_token(),
            {"given_hash": token_hash, "given_identity": identity, "given_role": role.value},
        )

    async def revoke(self, identity: str) -> int:
        """Shuts every token of an identity out; how many there were. Raises `NotFound` for none."""
        check_name("identity", identity)
        rows = await self._database.fetch(revoke_tokens(), {"given_identity": identity})
        if not rows:
            raise NotFound(f"access token of {identity}")
        return len(rows)


def _token(row: Row) -> AccessToken:
    return AccessToken(**{**row, "role": Role(row["role"])})
