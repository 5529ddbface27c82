"""Pages of short lists: the entry beyond the page tells whether there is another."""

import pytest

from headgate.model.errors import InvalidRequest
from headgate.model.page import Page, PageRequest


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], Page([], None)),
        (["a"], Page(["a"], None)),
        (["a", "b"], Page(["a", "b"], None)),
        (["a", "b", "c"], Page(["a", "b"], 7)),
    ],
)
def test_the_next_cursor(found: list[str], expected: Page[str]) -> None:
    assert PageRequest(2, 5).page(found) == expected


def test_parameters() -> None:
    assert PageRequest().parameters() == {"page_size": 201, "page_offset": 0}
    assert PageRequest(1, 2**64).parameters() == {"page_size": 2, "page_offset": 2**31 - 1}


@pytest.mark.parametrize("limit", [0, -1, 201])
def test_sizes_that_cannot_be(limit: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        PageRequest(limit).parameters()
    assert refused.value.message == "limit must be between 1 and 200"


def test_a_negative_cursor() -> None:
    with pytest.raises(InvalidRequest):
        PageRequest(1, -1).parameters()
