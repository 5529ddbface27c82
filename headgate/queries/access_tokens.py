"""Access tokens of the control API, kept as hashes."""

from functools import cache

from sqlalchemy import Executable, Integer, LargeBinary, Text, bindparam, select, update
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.clock import instant
from headgate.tables import access_token


@cache
def valid_tokens() -> Executable:
    """Up to `page_size` tokens that are not revoked, newest first."""
    return (
        select(access_token)
        .where(access_token.c.revoked_at_ms.is_(None))
        .order_by(access_token.c.created_at_ms.desc())
        .limit(bindparam("page_size", type_=Integer))
    )


@cache
def all_tokens() -> Executable:
    """Up to `page_size` tokens, revoked ones too, newest first."""
    return (
        select(access_token)
        .order_by(access_token.c.created_at_ms.desc())
        .limit(bindparam("page_size", type_=Integer))
    )


@cache
def add_token() -> Executable:
    """Adds a token, stamped by the database."""
    return insert(access_token).values(
        token_hash=bindparam("given_hash", type_=LargeBinary),
        identity=bindparam("given_identity", type_=Text),
        role=bindparam("given_role", type_=Text),
        created_at_ms=instant(),
    )


@cache
def revoke_tokens() -> Executable:
    """Revokes every token of `given_identity` that is not yet; a row for each."""
    return (
        update(access_token)
        .where(
            access_token.c.identity == bindparam("given_identity", type_=Text),
            access_token.c.revoked_at_ms.is_(None),
        )
        .values(revoked_at_ms=instant())
        .returning(access_token.c.token_hash)
    )
