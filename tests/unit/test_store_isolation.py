"""Finding the rows that cannot be written, among many that can."""

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.model.errors import StoreUnavailable
from headgate.store.failures import RowRefused
from headgate.store.isolation import Isolation


class Writes:
    """Writes all rows of a part but those that are bad; then it writes none."""

    def __init__(self, *bad: int) -> None:
        self.bad = set(bad)
        self.calls = 0

    async def __call__(self, row_ids: Sequence[int]) -> list[Any]:
        self.calls += 1
        if self.bad & set(row_ids):
            raise RowRefused("no")
        return list(row_ids)


@pytest.mark.parametrize("bad", [(), (0,), (999,), (0, 1, 500, 999)])
async def test_all_but_the_bad_ones_are_written(bad: tuple[int, ...]) -> None:
    isolation, write = Isolation[int]("test"), Writes(*bad)
    written = await isolation.each(range(1_000), write)
    assert sorted(isolation.passed_over) == list(bad)
    assert sorted(map(int, map(str, written))) == [n for n in range(1_000) if n not in bad]
    assert write.calls <= 1 + 20 * len(bad)


async def test_nothing_is_no_work() -> None:
    write = Writes()
    assert await Isolation[int]("test").each([], write) == []
    assert write.calls == 0


async def test_they_get_another_chance() -> None:
    now = 0.0
    isolation = Isolation[int]("test", clock=lambda: now)
    await isolation.each([7], Writes(7))
    assert isolation.passed_over == [7]
    now = 3_601
    assert isolation.passed_over == []


async def test_an_outage_is_nobodys_fault() -> None:
    async def away(row_ids: Sequence[int]) -> list[Any]:
        raise StoreUnavailable("gone")

    isolation = Isolation[int]("test")
    with pytest.raises(StoreUnavailable):
        await isolation.each([1, 2], away)
    assert isolation.passed_over == []
