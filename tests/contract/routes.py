"""Every GET route as it is asked, and what its statements may touch."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from headgate.api.operations import PREFIX
from headgate.api.table import OPERATIONS


class Bound(NamedTuple):
    """The pages that one statement may touch, and why it may touch more where there is more."""

    pages: int
    cap: str = ""


ROUTES: Final[Mapping[str, tuple[Bound, tuple[str, ...]]]] = {
    "healthz": (Bound(0), ("/healthz",)),
    "readyz": (Bound(10), ("/readyz",)),
    "meta": (Bound(0), ("/meta",)),
    "read_session": (Bound(0), ("/session",)),
    "read_job": (
        Bound(20),
        ("/jobs/{first}", "/jobs/{first}?include_payload=true", "/jobs/nobody"),
    ),
    "count_jobs": (
        Bound(2_500, "every state of each queue"),
        ("/jobs/counts", "/jobs/counts?queue=q000"),
    ),
    "explain_admission": (
        Bound(3_000, "1,000 jobs ahead"),
        ("/jobs/{first}/admission", "/jobs/{last}/admission?advice=true"),
    ),
    "read_artifacts": (Bound(20), ("/jobs/{newest}/artifacts",)),
    "read_result": (Bound(20), ("/jobs/{newest}/result",)),
    "read_output": (Bound(20), ("/jobs/{newest}/output",)),
    "read_progress": (Bound(20), ("/jobs/{newest}/progress",)),
    "read_checkpoint": (Bound(20), ("/jobs/{newest}/checkpoint",)),
    "list_operations": (
        Bound(300, "a page of 200 operations"),
        ("/operations", "/operations?limit=10&cursor=5"),
    ),
    "read_operation": (Bound(20), ("/operations/operation",)),
    "list_queues": (
        Bound(120_000, "1,000 partitions of each queue"),
        ("/queues", "/queues?limit=20", "/queues?limit=20&cursor=150", "/queues?queue=q000"),
    ),
    "list_backlogs": (
        Bound(4_000, "every state of each queue"),
        ("/backlog", "/backlog?limit=20&cursor=150"),
    ),
    "read_queue_history": (
        Bound(1_000),
        (
            "/queues/q000/history",
            "/queues/q000/history?bucket_ms=3600000",
            "/queues/q000/history?bucket_ms=300000&since_ms=1",
        ),
    ),
    "read_history": (
        Bound(6_000, "100,000 minutes of a queue"),
        ("/history", "/history?bucket_ms=3600000", "/history?bucket_ms=300000&since_ms=1"),
    ),
    "count_dead_letters": (
        Bound(8_000, "1,000 jobs of each way to fail"),
        ("/dead-letters", "/dead-letters?since_ms=4000000000000"),
    ),
    "read_blocked_jobs": (
        Bound(16_000, "the 5,000 oldest jobs"),
        ("/queues/q000/blocked", "/queues/q150/blocked", "/queues/retired/blocked"),
    ),
    "list_partitions": (
        Bound(1_000, "a page of 200 partitions"),
        ("/partitions?queue=q000", "/partitions?queue=q000&cursor=100", "/partitions?queue=rare"),
    ),
    "list_rate_classes": (Bound(6_000, "1,000 jobs of each class"), ("/rate-classes",)),
    "read_rate_class": (Bound(400, "1,000 jobs of the class"), ("/rate-classes/class3",)),
    "list_concurrency_limits": (Bound(20), ("/concurrency-limits",)),
    "read_concurrency_limit": (Bound(20), ("/concurrency-limits/limit1",)),
    "list_quarantine": (Bound(300, "a page of 200 fingerprints"), ("/quarantine",)),
    "list_schedules": (Bound(400), ("/periodic", "/periodic?limit=10&cursor=20")),
    "read_schedule": (Bound(20), ("/periodic/schedule-1?include_payload=true",)),
    "preview_ticks": (Bound(0), ("/ticks?spec=@every:60000",)),
    "list_schedule_events": (Bound(200), ("/periodic/schedule-1/enqueue-events",)),
    "list_workers": (Bound(400), ("/workers",)),
    "read_cluster": (Bound(2_500, "every state of each queue"), ("/cluster",)),
    "list_duties": (Bound(20), ("/duties",)),
    "list_archived_jobs": (
        Bound(300),
        ("/archive?queue=q000", "/archive?queue=q000&limit=10&cursor=1000-x"),
    ),
    "list_audit_entries": (Bound(20), ("/audit", "/audit?limit=200&cursor=1000")),
    "read_metrics": (Bound(120_000, "1,000 partitions of each queue"), ("/metrics",)),
    "list_workflows": (Bound(400), ("/workflows", "/workflows?limit=5&cursor={middle}")),
    "read_workflow": (Bound(20), ("/workflows/nobody",)),
    "reveal_payload": (Bound(20), ("/jobs/nobody/payload/reveal",)),
    "openapi_document": (Bound(0), ("/openapi.json",)),
    "documentation_page": (Bound(0), ("/docs",)),
}
"""Of each operation what its statements may touch, and requests; `{first}`, `{last}` and `{newest}`
stand for jobs of the database.
"""

_APART: Final = {"list_jobs", "follow_events"}


class Request(NamedTuple):
    """A path with its query, and what its statements may touch."""

    target: str
    bound: Bound


def routes() -> Iterator[Request]:
    """Requests to every GET route but the list of jobs."""
    prefixes = {each.name: each.path for each in OPERATIONS if each.method == "GET"}
    if missing := prefixes.keys() - ROUTES.keys() - _APART:
        raise LookupError(f"nothing is asked of {', '.join(sorted(missing))}")
    for name, (bound, targets) in ROUTES.items():
        prefix = PREFIX if prefixes[name].startswith(PREFIX) else ""
        for target in targets:
            yield Request(prefix + target, bound)
