"""The route table: every operation there is, in the order of the documentation."""

from typing import Final

from headgate.api import documents, enqueue, health, jobs
from headgate.api.operations import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    health.healthz,
    health.readyz,
    health.meta,
    enqueue.enqueue_job,
    jobs.list_jobs,
    jobs.read_job,
    documents.openapi_document,
    documents.documentation_page,
)
"""Operations not listed here are not served."""
