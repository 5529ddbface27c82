"""Every read that an operator can ask for, and what it may cost on the skewed database."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from headgate.model.job import JobFilter
from headgate.model.page import PageRequest
from headgate.store.audit import Audit
from headgate.store.database import Executor
from headgate.store.fleet_view import FleetView
from headgate.store.policies import Policies
from headgate.store.queues import Queues
from headgate.store.search import search_jobs

Ask = Callable[[Executor], Awaitable[Any]]


class Read(NamedTuple):
    """How to ask, the most pages that one of its statements may touch, and an index it must use."""

    ask: Ask
    pages: int
    served_by: str = ""


def listed(
    pages: int, index: str, *, limit: int = 50, cursor: int | None = None, **conditions: Any
) -> Read:
    where = JobFilter(**conditions)
    return Read(lambda executor: search_jobs(executor, where, cursor, limit), pages, index)


LISTS: Final[dict[str, Read]] = {
    "all jobs": listed(400, "pkey"),
    "an id": listed(20, "ulid_key", id="job7"),
    "an id in another queue": listed(20, "ulid_key", id="job7", queue="q001"),
    "a queue": listed(400, "queue", queue="q000"),
    "an old queue": listed(400, "queue", queue="retired"),
    "a rare queue": listed(80, "queue", queue="rare"),
    "no such queue": listed(40, "queue", queue="nobody's"),
    "a state": listed(400, "state", state="archived"),
    "a rare state": listed(400, "state", state="quarantined"),
    "a kind": listed(400, "kind", kind="mail:1"),
    "an old kind": listed(400, "kind", kind="retired"),
    "no such kind": listed(40, "kind", kind="nothing"),
    "a prefix": listed(900, "kind", kind_prefix="mail"),
    "a rare prefix": listed(90, "kind", kind_prefix="rar"),
    "a prefix in a state": listed(400, "kind", kind_prefix="mail", state="available"),
    "a hot fingerprint": listed(400, "fingerprint", fingerprint="hot"),
    "a cold fingerprint": listed(400, "fingerprint", fingerprint="cold"),
    "a fingerprint in a state": listed(400, "fingerprint", fingerprint="hot", state="available"),
    "a completed fingerprint": listed(400, "state", fingerprint="hot", state="completed"),
    "a partition": listed(400, "pkey", partition_key="t1"),
    "no such partition": listed(400, "pkey", partition_key="nobody's"),
    "a rate class": listed(400, "pkey", rate_class="class40"),
    "a priority": listed(400, "pkey", priority=-17),
    "a common tag": listed(400, "", tags_all=("common",)),
    "a rare tag": listed(60, "", tags_all=("rare",)),
    "common and rare tags": listed(100, "", tags_all=("common", "rare")),
    "tags that never meet": listed(1_500, "", tags_all=("left", "right")),
    "any of rare tags": listed(400, "", tags_any=("rare", "tenant:3")),
    "any of common tags": listed(400, "", tags_any=("common", "left")),
    "tags of either sort": listed(1_200, "", tags_all=("common",), tags_any=("left", "rare")),
    "a tag in a state": listed(1_200, "", tags_all=("common",), state="quarantined"),
    "a tag in a queue": listed(1_200, "", tags_all=("common",), queue="retired"),
    "a queue in a state": listed(400, "queue", queue="q001", state="archived"),
    "a queue without the state": listed(20, "queue", queue="retired", state="running"),
    "a queue of a rare kind": listed(100, "kind", queue="q000", kind="rare"),
    "a rare queue of a kind": listed(100, "queue", queue="rare", kind="mail:1"),
    "a queue of a kind": listed(1_200, "", queue="q000", kind="mail:1"),
    "a kind in a state": listed(400, "kind", kind="mail:1", state="available"),
    "a state with a priority": listed(400, "state", state="available", priority=-17),
    "a queue with a partition": listed(1_200, "queue", queue="q000", partition_key="nobody's"),
    "everything at once": listed(
        1_200,
        "",
        queue="q000",
        kind_prefix="mail",
        state="completed",
        partition_key="t1",
        rate_class="",
        priority=0,
        tags_all=("common",),
        tags_any=("left", "right"),
    ),
}

READS: Final[dict[str, Read]] = {
    "queues": Read(lambda executor: Queues(executor).page(PageRequest()), 14_000),
    "backlogs": Read(lambda executor: Queues(executor).backlogs(PageRequest()), 600),
    "counts": Read(lambda executor: Queues(executor).counts(), 120),
    "counts of a queue": Read(lambda executor: Queues(executor).counts("q000"), 120),
    "history": Read(lambda executor: Queues(executor).history("q000"), 300),
    "partitions": Read(
        lambda executor: Queues(executor).partitions("q000", PageRequest(200, 800)), 200
    ),
    "blocked": Read(lambda executor: Queues(executor).blocked("q000"), 1_500, "queue"),
    "rate classes": Read(
        lambda executor: Policies(executor).rate_classes(PageRequest()), 1_500, "rate_class"
    ),
    "concurrency limits": Read(
        lambda executor: Policies(executor).concurrency_limits(PageRequest()), 20
    ),
    "admission": Read(
        lambda executor: Policies(executor).explain_admission("job39999", advice=True), 400
    ),
    "workers": Read(lambda executor: FleetView(executor).workers(PageRequest()), 120),
    "cluster": Read(lambda executor: FleetView(executor).cluster(), 500),
    "audit": Read(lambda executor: Audit(executor).page(), 20),
}
