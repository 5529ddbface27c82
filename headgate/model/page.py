"""Pages of short lists: an offset in, the next offset out.

Jobs and audit entries have cursors of their own, as they grow without end.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from headgate.model.errors import InvalidRequest

MAX_PAGE: Final = 200
_MAX_OFFSET: Final = 2**31 - 1

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """What one page holds. `next_cursor` is where the next one begins, None after the last."""

    items: list[Item]
    next_cursor: int | None = None


class PageRequest(msgspec.Struct, frozen=True):
    """Up to `limit` entries, from the one numbered `cursor` on; past the end there is nothing."""

    limit: int = MAX_PAGE
    cursor: int = 0

    def parameters(self) -> dict[str, int]:
        """For a statement that reads one entry more than it is asked for, to know whether there is
        one. Raises `InvalidRequest` for a limit outside 1 to 200 and for a negative cursor.
        """
        check_page_limit(self.limit)
        if self.cursor < 0:
            raise InvalidRequest("cursor must be >= 0")
        return {"page_size": self.limit + 1, "page_offset": min(self.cursor, _MAX_OFFSET)}

    def page(self, found: Sequence[Item]) -> Page[Item]:
        """The page of what that statement found."""
        more = len(found) > self.limit
        return Page(list(found[: self.limit]), self.cursor + self.limit if more else None)


def check_page_limit(limit: int) -> None:
    """Refuse a size that a page cannot have."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidRequest(f"limit must be between 1 and {MAX_PAGE}")
