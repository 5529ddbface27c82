"""The partitions of a queue: who is waiting for a turn."""

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import operation
from headgate.api.paging import BAD_LIMIT, PageQuery, page_answer, page_response
from headgate.api.requests import ApiRequest
from headgate.model.queue import Partition


class PartitionQuery(PageQuery, kw_only=True, frozen=True):
    queue: Annotated[str, Meta(description="The queue whose partitions are wanted.")]


@operation(
    "GET",
    "/partitions",
    page_answer(
        "A page of the partitions by key.",
        Partition,
        partitions=[Partition(partition_key="acme", deficit=0, waiting=17)],
    ),
    BAD_LIMIT,
)
async def list_partitions(request: ApiRequest, query: PartitionQuery) -> Response:
    """List the partitions of a queue that have available jobs.

    They take turns without keeping a debt, so `deficit` is always 0.
    """
    return page_response(await request.store.queues.partitions(query.queue, query.page))
