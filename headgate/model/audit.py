"""The trail of what was changed through the control API."""

import msgspec


class AuditRecord(msgspec.Struct, kw_only=True, frozen=True):
    """One mutation as it is written down. `target` is the thing that was named, if any."""

    identity: str
    role: str
    method: str
    route: str
    target: str
    idempotency_key: str
    status: int


class AuditEntry(AuditRecord, kw_only=True, frozen=True):
    """One mutation as it is read back."""

    id: int
    at_ms: int


class AuditPage(msgspec.Struct, frozen=True):
    """Newest first. `next_cursor` is where the next page begins, None after the last."""

    entries: list[AuditEntry]
    next_cursor: int | None
