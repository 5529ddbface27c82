"""Where the store is and how it may be used: values, read once and validated."""

import os
from collections.abc import Mapping
from typing import Self

import msgspec
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from headgate.model.errors import InvalidRequest

_DRIVERS = frozenset({"postgresql", "postgres", "postgresql+asyncpg", "postgresql+psycopg"})


def parse_url(dsn: str) -> URL:
    """The parsed DSN. Raises `InvalidRequest`, without repeating what may hold a password."""
    try:
        url = make_url(dsn)
    except (ArgumentError, ValueError):
        raise InvalidRequest("bad conninfo: not a URL like postgresql://user@host/name") from None
    if url.drivername not in _DRIVERS:
        raise InvalidRequest(f"bad conninfo: `{url.drivername}` is not postgresql")
    return url.set(drivername="postgresql")


class StoreSettings(msgspec.Struct, kw_only=True, frozen=True):
    """How to reach one installation of Headgate.

    `schema` is the PostgreSQL schema that holds its tables. `pooler` says that a transaction
    pooler stands in between: no prepared statements, session settings or LISTEN then, and polling
    takes over from wake-ups. `statement_timeout_ms` and `lock_timeout_ms` bound every statement.
    """

    dsn: str
    schema: str = "public"
    pool_size: int = 10
    gate_pool_size: int = 4
    connect_timeout_ms: int = 5_000
    statement_timeout_ms: int = 30_000
    lock_timeout_ms: int = 10_000
    pooler: bool = False
    notify: bool = True

    def __post_init__(self) -> None:
        parse_url(self.dsn)
        if not self.schema:
            raise InvalidRequest("schema must not be empty")
        if "\0" in self.schema:
            raise InvalidRequest("schema must not contain NUL")
        if len(self.schema.encode()) > 63:
            raise InvalidRequest("schema must be at most 63 bytes")
        for name in (
            "pool_size",
            "gate_pool_size",
            "connect_timeout_ms",
            "statement_timeout_ms",
            "lock_timeout_ms",
        ):
            if getattr(self, name) < 1:
                raise InvalidRequest(f"{name} must be >= 1")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Reads `HEADGATE_DATABASE_URL` (required) and the optional `HEADGATE_SCHEMA`,
        `HEADGATE_POOL_SIZE`, `HEADGATE_STATEMENT_TIMEOUT_MS` and `HEADGATE_POOLER=1`.
        """
        dsn = environment.get("HEADGATE_DATABASE_URL")
        if not dsn:
            raise InvalidRequest("HEADGATE_DATABASE_URL is not set")
        return cls(
            dsn=dsn,
            schema=environment.get("HEADGATE_SCHEMA") or "public",
            pool_size=_integer(environment, "HEADGATE_POOL_SIZE", 10),
            statement_timeout_ms=_integer(environment, "HEADGATE_STATEMENT_TIMEOUT_MS", 30_000),
            pooler=environment.get("HEADGATE_POOLER", "") in {"1", "true"},
        )

    @property
    def driver_dsn(self) -> str:
        """The DSN in the form that the driver takes."""
        return parse_url(self.dsn).render_as_string(hide_password=False)


def _integer(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit()):
        raise InvalidRequest(f"{name} is not a number")
    return int(value)
