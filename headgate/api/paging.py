"""Short lists in pages: an offset in the query, the next offset in a header."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import Answer, Links, refused
from headgate.api.responses import json_response
from headgate.api.wire import U64, narrower
from headgate.model.page import MAX_PAGE, Page, PageRequest

NEXT_CURSOR: Final = "x-next-cursor"


class PageQuery(msgspec.Struct, kw_only=True, frozen=True):
    """Which part of a list is wanted. Entries that come and go meanwhile move the rest."""

    limit: Annotated[
        U64 | None,
        Meta(description=f"Entries on a page, 1 to {MAX_PAGE}."),
        narrower(minimum=1, maximum=MAX_PAGE, default=MAX_PAGE),
    ] = None
    cursor: Annotated[
        U64 | None,
        Meta(description=f"How many entries to leave out: `{NEXT_CURSOR}` of the page before."),
        narrower(default=0),
    ] = None

    @property
    def page(self) -> PageRequest:
        """The same for the store, which judges it."""
        return PageRequest(MAX_PAGE if self.limit is None else self.limit, self.cursor or 0)


BAD_LIMIT: Final = refused(
    400, "`limit` is out of its bounds.", f"limit must be between 1 and {MAX_PAGE}"
)


def page_answer(
    description: str, entry: Any, *, links: Links | None = None, **examples: Any
) -> Answer:
    """The answer of a list in pages, for the document; `examples` are lists."""
    return Answer(
        200,
        description,
        list[entry],
        headers={NEXT_CURSOR: "Where the next page begins; absent on the last one."},
        examples=examples,
        links=links or {},
    )


def page_response(page: Page[Any]) -> Response:
    """The entries as a list, and where to go on."""
    headers = None if page.next_cursor is None else {NEXT_CURSOR: str(page.next_cursor)}
    return json_response(page.items, headers=headers)
