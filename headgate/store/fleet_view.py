"""The workers of the installation, seen from outside."""

from headgate.model.backlog import empty_poll_ratio, utilization
from headgate.model.fleet import Cluster, DutyState, QueueCoverage, WorkerCounts, WorkerView
from headgate.model.page import Page, PageRequest
from headgate.queries.cluster import cluster, live_workers
from headgate.queries.duties import duty_states
from headgate.store.database import Executor, Row


class FleetView:
    """Who is at work, and which queues nobody takes jobs of. Raises `StoreUnavailable`."""

    def __init__(self, database: Executor) -> None:
        self._database = database

    async def workers(self, request: PageRequest) -> Page[WorkerView]:
        """A page of the live workers by id. Raises `InvalidRequest`."""
        rows = await self._database.fetch(live_workers(), request.parameters())
        return request.page([_worker(row) for row in rows])

    async def cluster(self) -> Cluster:
        """The live workers together, and how many there are for each queue."""
        rows = await self._database.fetch(cluster())
        first = rows[0]
        return Cluster(
            workers=WorkerCounts(
                live=first["live"], stale=first["total"] - first["live"], total=first["total"]
            ),
            capacity_total=first["concurrency_total"],
            inflight_total=first["inflight_total"],
            utilization=utilization(first["inflight_total"], first["concurrency_total"]),
            empty_poll_ratio=empty_poll_ratio(first["empty_polls_total"], first["polls_total"]),
            polls_total=first["polls_total"],
            empty_polls_total=first["empty_polls_total"],
            queues=[
                QueueCoverage(row["queue"], row["live_workers"])
                for row in rows
                if row["queue"] is not None
            ],
        )

    async def duties(self) -> list[DutyState]:
        """The background duties by name: who has them now, and how they get on."""
        return [DutyState(**row) for row in await self._database.fetch(duty_states())]


def _worker(row: Row) -> WorkerView:
    return WorkerView(
        **{**row, "status": row["status"] or "running"},
        utilization=utilization(row["inflight"], row["concurrency"]),
        empty_poll_ratio=empty_poll_ratio(row["empty_polls"], row["polls"]),
    )
