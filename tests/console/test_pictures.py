"""The pictures of the documentation, taken when HEADGATE_PICTURES names a folder for them."""

import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.console.screen import NARROW, WIDE, Screen, Theme

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(
        "HEADGATE_PICTURES" not in os.environ, reason="pictures are taken by make pictures"
    ),
]

PICTURES: Final[tuple[tuple[str, tuple[str, ...], tuple[int, int], Theme], ...]] = (
    ("overview", (), WIDE, "light"),
    ("overview-dark", (), WIDE, "dark"),
    ("jobs", ("jobs",), WIDE, "light"),
    ("job", ("jobs", "retry-1"), WIDE, "light"),
    ("queue", ("queues", "mail"), WIDE, "dark"),
    ("narrow", (), NARROW, "light"),
)


@pytest.mark.parametrize(("name", "path", "size", "theme"), PICTURES, ids=lambda each: str(each))
async def test_picture(
    browser: Any, site: str, name: str, path: tuple[str, ...], size: tuple[int, int], theme: Theme
) -> None:
    # A phone takes no room for a bar to scroll with.
    phone = size == NARROW
    async with Screen.opened(
        browser, site, size=size, theme=theme, is_mobile=phone, has_touch=phone
    ) as screen:
        await screen.go(*path, **({"queue": "reports"} if name == "jobs" else {}))
        await screen.page.get_by_role("button", name="live").wait_for()
        await screen.page.screenshot(path=Path(os.environ["HEADGATE_PICTURES"], f"{name}.png"))
