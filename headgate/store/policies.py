"""Policies of the gate: rate classes, concurrency limits, and why a job waits."""

from typing import Any, Final

from headgate.model.admission import (
    Admission,
    AdmissionFacts,
    Bucket,
    Ceiling,
    advise,
    explain,
)
from headgate.model.errors import Conflict, NotFound, StoreUnavailable
from headgate.model.limits import check_name, is_storable
from headgate.model.page import Page, PageRequest
from headgate.model.policy import ConcurrencyLimit, RateClass, RateClassPolicy
from headgate.queries.admission import admission_facts
from headgate.queries.concurrency_limits import (
    concurrency_limits,
    delete_concurrency_limit,
    limit_of_queue,
    lock_concurrency_limits,
    put_concurrency_limit,
)
from headgate.queries.rate_classes import (
    add_rate_class,
    change_rate_class,
    delete_rate_class,
    lock_rate_class,
    rate_classes,
)
from headgate.store.database import Executor, Row, Session

_ATTEMPTS: Final = 5


class Policies:
    """What operators say of rates and ceilings. The gate follows at its next call.

    All methods raise `StoreUnavailable`; those that take a name refuse one that no row can hold
    with `InvalidRequest`.
    """

    def __init__(self, database: Executor) -> None:
        self._database = database

    async def rate_classes(self, request: PageRequest) -> Page[RateClass]:
        """A page of the rate classes by name. Raises `InvalidRequest`."""
        rows = await self._database.fetch(rate_classes(one=False), request.parameters())
        return request.page([RateClass(**row) for row in rows])

    async def rate_class(self, name: str) -> RateClass:
        """One rate class. Raises `NotFound`."""
        rows = []
        if is_storable(name):
            rows = await self._database.fetch(rate_classes(one=True), {"wanted_name": name})
        if not rows:
            raise NotFound(f"rate class {name}")
        return RateClass(**rows[0])

    async def put_rate_class(self, name: str, policy: RateClassPolicy) -> None:
        """Makes or changes a rate class. A new one is full, a changed one keeps what it holds.

        Raises `InvalidRequest` for terms that cannot be.
        """
        policy.check()
        check_name("name", name)
        terms = {
            "wanted_name": name,
            "new_burst": policy.effective_burst,
            "new_limit": policy.limit,
            "new_window_ms": policy.window_ms,
            "new_paused": policy.paused,
        }
        full = 0 if policy.stopped else policy.effective_burst

        async def work(session: Session) -> None:
            for _ in range(_ATTEMPTS):
                rows = await session.fetch(lock_rate_class(), {"wanted_name": name})
                if rows:
                    await session.fetch(change_rate_class(), {**terms, **_holding(policy, rows[0])})
                    return
                if await session.fetch(add_rate_class(), {**terms, "new_tokens": full}):
                    return
            raise StoreUnavailable("the rate class comes and goes; try again")

        await self._database.transact(work)

    async def delete_rate_class(self, name: str) -> None:
        """Deletes a rate class; its jobs run unlimited from now on. Raises `NotFound`."""
        check_name("name", name)
        if not await self._database.fetch(delete_rate_class(), {"wanted_name": name}):
            raise NotFound(f"rate class {name}")

    async def concurrency_limits(self, request: PageRequest) -> Page[ConcurrencyLimit]:
        """A page of the concurrency limits by name. Raises `InvalidRequest`."""
        rows = await self._database.fetch(concurrency_limits(one=False), request.parameters())
        return request.page([ConcurrencyLimit(**row) for row in rows])

    async def concurrency_limit(self, name: str) -> ConcurrencyLimit:
        """One concurrency limit. Raises `NotFound`."""
        rows = []
        if is_storable(name):
            rows = await self._database.fetch(concurrency_limits(one=True), {"wanted_name": name})
        if not rows:
            raise NotFound(f"concurrency limit {name}")
        return ConcurrencyLimit(**rows[0])

    async def put_concurrency_limit(self, limit: ConcurrencyLimit) -> None:
        """Makes or changes a concurrency limit.

        Raises `InvalidRequest` for one that cannot be, `Conflict` when another one has the queue.
        """
        limit.check()
        parameters = {
            "wanted_name": limit.name,
            "new_queue": limit.queue,
            "new_max_concurrent": limit.max_concurrent,
            "new_on_saturated": limit.on_saturated,
        }

        async def work(session: Session) -> None:
            await session.fetch(lock_concurrency_limits())
            for row in await session.fetch(limit_of_queue(), {"new_queue": limit.queue}):
                if row["name"] != limit.name:
                    raise Conflict(
                        f"queue {limit.queue} already has the concurrency limit {row['name']}"
                    )
            await session.fetch(put_concurrency_limit(), parameters)

        await self._database.transact(work)

    async def delete_concurrency_limit(self, name: str) -> None:
        """Deletes a concurrency limit. Raises `NotFound`."""
        check_name("name", name)
        if not await self._database.fetch(delete_concurrency_limit(), {"wanted_name": name}):
            raise NotFound(f"concurrency limit {name}")

    async def explain_admission(self, job_id: str, *, advice: bool = False) -> Admission | None:
        """Why the job does or does not run now; None when there is no such job.

        With `advice`, also what else may keep it waiting.
        """
        if not is_storable(job_id):
            return None
        rows = await self._database.fetch(admission_facts(advice=advice), {"wanted_id": job_id})
        if not rows:
            return None
        facts = _facts(rows[0])
        admission = explain(facts)
        if advice:
            admission.advice = advise(facts)
        return admission


def _holding(policy: RateClassPolicy, row: Row) -> dict[str, int]:
    tokens, remainder = policy.holding(
        row["scaled_level"], row["window_ms"], stopped=row["stopped"]
    )
    return {
        "new_tokens": tokens,
        "new_remainder": remainder,
        "credited_at_ms": row["now_ms"],
    }


def _facts(row: Row) -> AdmissionFacts:
    facts: dict[str, Any] = dict(row)
    bucket = _taken(facts, "bucket_")
    ceiling = _taken(facts, "ceiling_")
    return AdmissionFacts(
        bucket=None if bucket["burst"] is None else Bucket(**bucket),
        ceiling=None if ceiling["max_concurrent"] is None else Ceiling(**ceiling),
        **facts,
    )


def _taken(facts: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The values whose names begin so, without the prefix; they are no longer in `facts`."""
    names = [name for name in facts if name.startswith(prefix)]
    return {name.removeprefix(prefix): facts.pop(name) for name in names}
