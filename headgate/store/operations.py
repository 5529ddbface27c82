"""Actions on whole selections: asked for now, worked off in batches by a duty."""

import logging
import secrets
from typing import Any, Final

import msgspec

from headgate.model.errors import InvalidRequest, NotFound, StoreError, StoreUnavailable
from headgate.model.identity import new_job_id
from headgate.model.lifecycle import LIVE, State
from headgate.model.limits import check_characters, is_storable
from headgate.model.operation import (
    DELETE_QUEUE,
    JobSelector,
    Operation,
    OperationEntry,
    QueueDeletion,
    conditions,
    judge_bulk,
    reached_states,
)
from headgate.model.page import Page, PageRequest
from headgate.queries.bulk import count_jobs, estimate
from headgate.queries.operations import (
    begin_operation,
    end_operation,
    one_operation,
    open_operations,
    page_of_operations,
    set_estimate,
)
from headgate.queries.queue_deletion import (
    freeze_intake,
    lock_intake,
    open_deletion,
    thaw_intake,
)
from headgate.queries.queue_settings import forget_queue
from headgate.store.bulk import do_batch
from headgate.store.database import Executor, Row, Session
from headgate.store.failures import RETRYABLE
from headgate.store.notifier import Notifier

# How many operations one pass serves; the next pass goes on behind them.
_PAGE: Final = 5
_BEGINNING: Final = (-1, "")
_FAILURE: Final = "internal error; the log of the worker that ran the batch has more"

_LIVE: Final = tuple(state for state in State if state in LIVE)

_encode: Final = msgspec.json.Encoder().encode
_decode_selector: Final = msgspec.json.Decoder(dict[str, str | int | None]).decode
_decode_deletion: Final = msgspec.json.Decoder(QueueDeletion).decode

logger = logging.getLogger("headgate.store")


class Operations:
    """Operations on selections of jobs, and the deletion of queues that still have some.

    All methods raise `StoreUnavailable`.
    """

    def __init__(self, database: Executor, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier
        # Behind which operation the next pass begins; losing it costs nothing.
        self._served = _BEGINNING

    async def create(
        self, action: str, selector: JobSelector, *, dry_run: bool = False
    ) -> Operation:
        """Begins to retry, cancel or delete every selected job; the operation as it begins.

        Jobs that are enqueued later are not meant. A dry run is completed at once, with its
        estimate as the answer. Raises `InvalidRequest`.
        """
        judge_bulk(action, selector)

        async def work(session: Session) -> Operation:
            operation_id = await _begin(
                session, new_job_id, action=action, selector=_encode(selector), dry_run=dry_run
            )
            return await _estimate(session, operation_id, action, selector)

        return await self._database.transact(work)

    async def get(self, operation_id: str) -> Operation | None:
        """The operation of this id, or None."""
        if not is_storable(operation_id):
            return None
        rows = await self._database.fetch(one_operation(), {"operation_id": operation_id})
        return Operation(**rows[0]) if rows else None

    async def page(self, request: PageRequest) -> Page[OperationEntry]:
        """A page of the operations that are kept: unfinished ones, then finished ones, the newest
        of each first. Raises `InvalidRequest` for a size it cannot have.
        """
        rows = await self._database.fetch(page_of_operations(), request.parameters())
        return request.page(
            [
                OperationEntry(**{**row, "selector": _decode_selector(row["selector"])})
                for row in map(dict, rows)
            ]
        )

    async def cancel(self, operation_id: str) -> Operation:
        """Ends an operation after the batch in flight; what was done stays done.

        A queue whose deletion is cancelled gets its intake back. Raises `NotFound`, and
        `InvalidRequest` for an operation that is over.
        """
        check_characters("id", operation_id)

        async def work(session: Session) -> Operation:
            ended = await _end(session, operation_id, "cancelled")
            if ended is not None:
                return ended
            rows = await session.fetch(one_operation(), {"operation_id": operation_id})
            if not rows:
                raise NotFound(f"operation {operation_id}")
            raise InvalidRequest(f"operation {operation_id} is already {rows[0]['status']}")

        return await self._database.transact(work)

    async def delete_queue(self, queue: str, *, force: bool = False) -> str | None:
        """Deletes a queue: None when it is gone, else the id of the operation that deletes it.

        A queue without unfinished jobs goes at once; jobs that ended stay. Another one is only
        deleted with `force`: nothing more gets in, and an operation deletes its jobs, waits for
        those that run, and then opens the queue again, as one that nobody has used yet. Asked for
        again meanwhile, it is the same operation.

        Raises `InvalidRequest` for a queue that is not empty without `force`.
        """
        check_characters("queue", queue)
        name = {"queue_name": queue}

        async def work(session: Session) -> str | None:
            [policy] = await session.fetch(lock_intake(), name)
            unfinished = await session.fetch(
                count_jobs(_LIVE, of_queue=True), {"wanted_queue": queue}
            )
            if not unfinished[0][0]:
                await session.fetch(forget_queue(), {"wanted_queue": queue})
                return None
            if not force:
                raise InvalidRequest("queue is not empty; retry with force=true")
            if known := await session.fetch(open_deletion(), name):
                operation_id: str = known[0]["id"]
                return operation_id
            await session.fetch(freeze_intake(), name)
            deletion = QueueDeletion(queue=queue, intake_limit=policy["max_unfinished_jobs"])
            return (await _begin_deletion(session, deletion)).id

        return await self._database.transact(work)

    async def run_pending(self, limit: int) -> int:
        """Does a batch of up to `limit` jobs of each of the next unfinished operations.

        How many of them got on: with none, there is nothing to do for now. One that fails is ended
        with an error and does not keep the others from theirs. Any number of processes may run
        this at once.
        """
        rows = await self._next(self._served, _PAGE)
        if len(rows) < _PAGE and self._served != _BEGINNING:
            first = await self._next(_BEGINNING, _PAGE - len(rows))
            rows += [row for row in first if _place(row) <= self._served]
        moved = 0
        for row in rows:
            # Also when its batch times out, the next pass serves the others first.
            self._served = _place(row)
            moved += await self._run(row["id"], limit)
        return moved

    async def _next(self, after: tuple[int, str], size: int) -> list[Row]:
        return await self._database.fetch(
            open_operations(), {"after_ms": after[0], "after_id": after[1], "page_size": size}
        )

    async def _run(self, operation_id: str, limit: int) -> bool:
        try:
            progress = await self._database.transact(
                lambda session: do_batch(session, operation_id, limit)
            )
        except StoreUnavailable:
            raise
        except (StoreError, msgspec.MsgspecError, ValueError) as failure:
            if isinstance(failure.__cause__, RETRYABLE):
                # It only kept losing against others, and comes again.
                return False
            logger.exception("operation %s failed", operation_id)
            await self._database.transact(
                lambda session: _end(session, operation_id, "failed", _FAILURE)
            )
            return True
        self._notifier.wake(progress.queues)
        return progress.moved


def _place(row: Row) -> tuple[int, str]:
    return row["created_at_ms"], row["id"]


async def _begin(
    session: Session,
    new_id: Any,
    *,
    action: str,
    selector: bytes,
    dry_run: bool = False,
    named: bool = False,
) -> str:
    """Writes the operation under the first id of `new_id` that is free."""
    while True:
        rows = await session.fetch(
            begin_operation(named=named),
            {
                "new_id": new_id(),
                "new_action": action,
                "new_selector": selector.decode(),
                "new_dry_run": dry_run,
            },
        )
        if rows:
            operation_id: str = rows[0]["id"]
            return operation_id


async def _begin_deletion(session: Session, deletion: QueueDeletion) -> Operation:
    names = iter((deletion.name,))
    operation_id = await _begin(
        session,
        # Another name that comes to the same, in the same millisecond, gets a suffix.
        lambda: next(names, f"{deletion.name}-{secrets.token_hex(4)}"),
        action=DELETE_QUEUE,
        selector=_encode(deletion),
        named=True,
    )
    return await _estimate(session, operation_id, DELETE_QUEUE, JobSelector(queue=deletion.queue))


async def _estimate(
    session: Session, operation_id: str, action: str, selector: JobSelector
) -> Operation:
    """How many jobs the operation has before it, written into its row."""
    states = reached_states(action, selector.state)
    given = conditions(selector)
    parameters: dict[str, Any] = {f"wanted_{name}": value for name, value in given.items()}
    total = 0
    if states:
        if given.keys() <= {"queue"}:
            counting = count_jobs(states, of_queue="queue" in given)
        else:
            counting = estimate(frozenset(given), states)
        rows = await session.fetch(counting, {**parameters, "operation_id": operation_id})
        total = rows[0][0]
    [row] = await session.fetch(set_estimate(), {"operation_id": operation_id, "new_total": total})
    return Operation(**row)


async def _end(
    session: Session, operation_id: str, status: str, error: str | None = None
) -> Operation | None:
    """Ends an operation before its time; None when it is over or unknown."""
    rows = await session.fetch(
        end_operation(),
        {"operation_id": operation_id, "new_status": status, "new_error": error},
    )
    if not rows:
        return None
    row = dict(rows[0])
    selector = row.pop("selector")
    if row.pop("action") == DELETE_QUEUE:
        deletion = _decode_deletion(selector)
        await session.fetch(
            thaw_intake(),
            {"queue_name": deletion.queue, "intake_limit": deletion.intake_limit},
        )
    return Operation(**row)
