"""The archive: what becomes of evicted jobs whose queue has a policy, month by month."""

import re
from functools import partial
from typing import Any, Final

import msgspec

from headgate.model.archive import (
    ArchivedJob,
    ArchiveMonth,
    ArchivePage,
    ArchivePolicy,
    judge_archive_policy,
)
from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.limits import check_characters, is_storable
from headgate.model.month import Month
from headgate.model.page import Page, PageRequest, check_page_limit
from headgate.queries.archive import (
    archive_policies,
    archived_jobs,
    clear_archive_policy,
    set_archive_policy,
)
from headgate.queries.archive_months import (
    archive_months,
    attach_month,
    close_month,
    drop_month,
    empty_month,
    lock_archive,
    make_month,
    month_contents,
    month_holds,
    try_archive_turn,
)
from headgate.queries.settings import local_settings
from headgate.store.database import Executor, Row, Session

MONTHS_AHEAD: Final = 2

_NEWEST: Final = 2**63 - 1
_CURSOR: Final = re.compile(r"([0-9]{1,18})-(.+)", re.DOTALL)
# Whoever waits for a lock here keeps evictions waiting behind it.
_PATIENCE: Final = (("lock_timeout", "2000"),)

_decode_errors: Final = msgspec.json.Decoder(list[dict[str, Any]]).decode


class Archive:
    """Policies, pages and months of the archive. All methods raise `StoreUnavailable`."""

    def __init__(self, database: Executor, schema: str) -> None:
        self._database = database
        self._schema = schema

    async def policies(self, request: PageRequest) -> Page[ArchivePolicy]:
        """A page of the queues that have a policy, by name. Raises `InvalidRequest`."""
        rows = await self._database.fetch(archive_policies(), request.parameters())
        return request.page([ArchivePolicy(**row) for row in rows])

    async def set_policy(self, queue: str, archive_retention_ms: int) -> None:
        """Keeps what is evicted of the queue from now on in the archive, for so long.

        What was archived before keeps the retention it had. Raises `InvalidRequest`.
        """
        judge_archive_policy(queue, archive_retention_ms)
        await self._database.fetch(
            set_archive_policy(),
            {"wanted_queue": queue, "new_retention_ms": archive_retention_ms},
        )

    async def clear_policy(self, queue: str) -> None:
        """Archives nothing more of the queue. What is archived stays for its time."""
        check_characters("queue", queue)
        await self._database.fetch(clear_archive_policy(), {"wanted_queue": queue})

    async def page(self, queue: str, *, limit: int, cursor: str | None = None) -> ArchivePage:
        """A page of what was evicted of the queue, last first, without payloads.

        `limit` is between 1 and 200. Raises `InvalidRequest` for another one and for a cursor that
        no page gave.
        """
        check_page_limit(limit)
        before_ms, before_ulid = _NEWEST, ""
        if cursor is not None:
            place = _CURSOR.fullmatch(cursor)
            if place is None or not is_storable(cursor):
                raise InvalidRequest("bad cursor")
            before_ms, before_ulid = int(place[1]), place[2]
        if not is_storable(queue):
            return ArchivePage(jobs=[], next_cursor=None)
        rows = await self._database.fetch(
            archived_jobs(),
            {
                "wanted_queue": queue,
                "before_ms": before_ms,
                "before_ulid": before_ulid,
                "page_size": limit + 1,
            },
        )
        jobs = []
        for row in rows[:limit]:
            fields = dict(row)
            errors = _decode_errors(fields.pop("errors"))
            jobs.append(ArchivedJob(id=fields.pop("ulid"), errors=errors, **fields))
        more = len(rows) > limit
        return ArchivePage(
            jobs=jobs,
            next_cursor=f"{jobs[-1].evicted_at_ms}-{jobs[-1].id}" if more else None,
        )

    async def months(self) -> list[ArchiveMonth]:
        """The months that the archive has a place for, in order."""
        return [
            ArchiveMonth(
                month=row["month"],
                open=Month.parse(row["month"]).next().begins_ms > row["now_ms"],
                rows_estimated=None if row["rows_estimated"] < 0 else row["rows_estimated"],
                bytes=row["bytes"],
            )
            for row in await self._months(self._database)
        ]

    async def prepare_months(self) -> list[str]:
        """Makes a place for the current month and the next two, where there is none; which.

        A month stays without one when evictions have begun without it: its jobs are in the default
        partition. Nothing is done while another process is at it.
        """
        return await self._database.transact(self._prepare)

    async def drop_empty_months(self) -> list[str]:
        """Takes away the places of months that are over and hold nothing any more; which.

        So what is done with the archive costs as much as there are months in it.
        """
        dropped = []
        for month in await self.months():
            if month.open:
                continue
            gone = Month.parse(month.month)
            if await self._database.transact(partial(self._drop, month=gone)):
                dropped.append(month.month)
        return dropped

    async def prune_month(self, month: str) -> int:
        """Empties a month like 202611 of the archive at once; how many jobs were in it.

        The month must be over, and with it the retention of all its jobs. Raises `InvalidRequest`
        otherwise, and `NotFound` for a month that the archive has no place for.
        """
        wanted = Month.parse(month)

        async def work(session: Session) -> int:
            if str(wanted) not in {row["month"] for row in await self._months(session)}:
                raise NotFound(f"archive month {wanted}")
            await session.fetch(local_settings(_PATIENCE))
            # From here on nothing gets in, so that nothing goes that was not looked at.
            await session.fetch(close_month(wanted))
            [contents] = await session.fetch(month_contents(wanted))
            if not contents["prunable"]:
                raise InvalidRequest("archive partition is open or still contains retained rows")
            await session.fetch(empty_month(wanted))
            rows: int = contents["rows"]
            return rows

        return await self._database.transact(work)

    async def _months(self, executor: Executor) -> list[Row]:
        return await executor.fetch(archive_months(), {"in_schema": self._schema})

    async def _prepare(self, session: Session) -> list[str]:
        schema = {"in_schema": self._schema}
        [turn] = await session.fetch(try_archive_turn(), schema)
        if not turn["ours"]:
            return []
        known = {row["month"] for row in await self._months(session)}
        await session.fetch(local_settings(_PATIENCE))
        made: list[str] = []
        month = Month.of(turn["now_ms"])
        for _ in range(MONTHS_AHEAD + 1):
            following = month.next()
            if str(month) not in known:
                [default] = await session.fetch(month_holds(month, in_default=True))
                if not default["holds"]:
                    await session.fetch(make_month(month))
                    await session.fetch(attach_month(month))
                    made.append(str(month))
            month = following
        return made

    async def _drop(self, session: Session, *, month: Month) -> bool:
        async def is_empty() -> bool:
            [partition] = await session.fetch(month_holds(month))
            return not partition["holds"]

        [turn] = await session.fetch(try_archive_turn(), {"in_schema": self._schema})
        known = {row["month"] for row in await self._months(session)}
        if not turn["ours"] or str(month) not in known or not await is_empty():
            return False
        await session.fetch(local_settings(_PATIENCE))
        await session.fetch(lock_archive())
        # An eviction that began within the month may have ended meanwhile.
        if not await is_empty():
            return False
        await session.fetch(drop_month(month))
        return True
