"""The browser that the console is looked at with."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

# Each window would load pages of the browser's own for its address bar, on the same processors.
NO_PAGES_OF_ITS_OWN: Final = (
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup"
)


def chromium() -> str | None:
    """The browser of this machine, or the one that HEADGATE_CHROMIUM names."""
    given = os.environ.get("HEADGATE_CHROMIUM")
    return given or next((found for name in NAMES if (found := shutil.which(name))), None)


@asynccontextmanager
async def launched(path: str, *flags: str) -> AsyncIterator[Any]:
    """That browser, driven by playwright, with more flags if need be."""
    # It need not be here where no console is looked at.
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=[*FLAGS, *flags])
        yield browser
        await browser.close()
