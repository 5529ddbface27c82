"""Who may do what through the control API: roles, and the tokens that stand for them."""

import hashlib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from headgate.model.errors import InvalidRequest


class Role(StrEnum):
    """What a caller may do. Neither a viewer nor a producer may do what the other may."""

    VIEWER = "viewer"
    PRODUCER = "producer"
    OPERATOR = "operator"
    ADMIN = "admin"


GRANTS: Final[Mapping[Role, frozenset[Role]]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.PRODUCER: frozenset({Role.PRODUCER}),
    Role.OPERATOR: frozenset({Role.VIEWER, Role.PRODUCER, Role.OPERATOR}),
    Role.ADMIN: frozenset(Role),
}
"""The roles that a role includes."""


class Identity(msgspec.Struct, frozen=True):
    """Who asks. `attributes` are the host application's own, for its authorizer."""

    subject: str
    attributes: Mapping[str, Any] = {}


class Caller(msgspec.Struct, frozen=True):
    """Who asks and what is allowed to them. Without an identity nobody was asked who they are."""

    roles: frozenset[Role]
    identity: Identity | None = None

    @classmethod
    def of(cls, subject: str, roles: Iterable[Role], **attributes: Any) -> "Caller":
        """A caller with these roles and everything that they include."""
        granted = frozenset[Role]().union(*(GRANTS[role] for role in roles))
        return cls(granted, Identity(subject, attributes))

    def may(self, *roles: Role) -> bool:
        """Whether one of the roles is granted."""
        return not self.roles.isdisjoint(roles)

    @property
    def subject(self) -> str:
        """The name of the identity; "" when there is none."""
        return "" if self.identity is None else self.identity.subject

    @property
    def role(self) -> str:
        """The roles in a word, as the audit trail has it; "" when nobody was asked."""
        if self.identity is None:
            return ""
        widest = [r for r in self.roles if not any(r in GRANTS[o] for o in self.roles - {r})]
        return "+".join(sorted(widest))


ANYBODY: Final = Caller(frozenset(Role))
"""The caller where access is open: everything is allowed, and nobody is named."""


class AccessToken(msgspec.Struct, kw_only=True, frozen=True):
    """A token as it is kept: its SHA-256, never itself."""

    token_hash: bytes
    identity: str
    role: Role
    created_at_ms: int = 0
    revoked_at_ms: int | None = None


def hash_token(token: bytes) -> bytes:
    """What is kept of a token. Tokens are random, so that a plain hash cannot be searched."""
    return hashlib.sha256(token).digest()


def parse_role(text: str) -> Role:
    """The role of this name. Raises `InvalidRequest`."""
    try:
        return Role(text)
    except ValueError:
        raise InvalidRequest(f"unknown role `{text}`: {', '.join(Role)}") from None
