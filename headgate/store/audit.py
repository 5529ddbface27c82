"""The audit trail: appended to in the transaction of the change, read newest first."""

from typing import Final

from headgate.model.audit import AuditEntry, AuditPage, AuditRecord
from headgate.model.page import check_page_limit
from headgate.model.texts import clean
from headgate.queries.audit import append_audit, audit_page
from headgate.store.database import Executor

_NEWEST: Final = 2**63 - 1
_MAX_TEXT_BYTES: Final = 1_024


class Audit:
    """Who changed what. Inside a session it shares the fate of the change."""

    def __init__(self, database: Executor) -> None:
        self._database = database

    async def append(self, record: AuditRecord) -> None:
        """Writes one entry down. Long texts are cut, not refused. Raises `StoreUnavailable`."""
        texts = ("identity", "role", "method", "route", "target", "idempotency_key")
        await self._database.fetch(
            append_audit(),
            {
                "given_status": record.status,
                **{
                    f"given_{name}": clean(getattr(record, name), _MAX_TEXT_BYTES) for name in texts
                },
            },
        )

    async def page(self, *, limit: int = 50, cursor: int | None = None) -> AuditPage:
        """A page of the entries before the cursor. Raises `InvalidRequest`."""
        check_page_limit(limit)
        before = _NEWEST if cursor is None else max(0, min(cursor, _NEWEST))
        rows = await self._database.fetch(
            audit_page(), {"before_id": before, "page_size": limit + 1}
        )
        entries = [AuditEntry(**row) for row in rows[:limit]]
        return AuditPage(entries, entries[-1].id if len(rows) > limit else None)
