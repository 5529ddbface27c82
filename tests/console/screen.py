"""A page of the console as a person sees and uses it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, Self
from urllib.parse import quote, urlencode

WIDE: Final = (1440, 900)
MIDDLE: Final = (1024, 768)
NARROW: Final = (390, 844)

_LOOKS: Final = "Number(document.querySelector('main')?.dataset.looks)"
_SETTLED: Final = f"""() =>
document.querySelector("main")?.dataset.address === location.hash && {_LOOKS} > 0
"""

Theme = Literal["light", "dark"]


class Screen:
    """Notes whatever goes wrong behind what is seen: errors, violations, requests elsewhere."""

    def __init__(self, page: Any, site: str) -> None:
        self.page = page
        self.site = site
        self.wrong: list[str] = []
        self.mutations: list[str] = []
        self.expected: set[int] = set()
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._note_request)
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        browser: Any,
        site: str,
        *,
        size: tuple[int, int] = WIDE,
        theme: Theme = "light",
        **options: Any,
    ) -> AsyncIterator[Self]:
        """A page in a browser that knows nothing yet."""
        width, height = size
        context = await browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, **options
        )
        async with cls.tab(context, site) as screen:
            yield screen
        await context.close()

    @classmethod
    @asynccontextmanager
    async def tab(cls, context: Any, site: str) -> AsyncIterator[Self]:
        """A page in a browser that may know the console."""
        page = await context.new_page()
        page.set_default_timeout(10_000)
        yield cls(page, site)
        await page.close()

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            # What the API refuses on purpose, a browser tells too.
            if any(f"status of {status} " in message.text for status in self.expected):
                return
            self.wrong.append(f"{message.type}: {message.text}")

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(self.site):
            self.wrong.append(f"request: {request.url}")
        if request.method not in ("GET", "HEAD"):
            self.mutations.append(f"{request.method} {request.url}")

    def assert_clean(self) -> None:
        assert not self.wrong, self.wrong

    def address(self, *path: str, **query: str) -> str:
        names = "/".join(quote(name, safe="") for name in path)
        return f"{self.site}#/{names}{'?' + urlencode(query) if query else ''}"

    async def go(self, *path: str, **query: str) -> Self:
        """Goes there by the address bar, and waits until there is something to see."""
        await self.page.goto(self.address(*path, **query))
        return await self.settled()

    async def settled(self) -> Self:
        """Waits until the API has answered for the address, whatever was shown before it did."""
        await self.page.wait_for_function(_SETTLED)
        return self

    async def follow(self, link: Any) -> Self:
        """Goes where a link leads, and waits until that is there."""
        before = await self.page.evaluate("location.href")
        await link.click()
        await self.page.wait_for_function("before => location.href !== before", arg=before)
        return await self.settled()

    async def look(self) -> None:
        """Asks for what is shown anew, and waits until the answer is shown."""
        before = await self.page.evaluate(_LOOKS)
        await self.page.keyboard.press("r")
        await self.page.wait_for_function(f"before => {_LOOKS} > before", arg=before)

    async def still(self) -> Self:
        """Lets nothing change by itself from now on."""
        await self.page.keyboard.press("l")
        await self.page.get_by_role("button", name="paused").wait_for()
        return self

    async def see(self, text: str, *, within: str = "main") -> Any:
        """Waits until the text is seen."""
        found = self.page.locator(within).get_by_text(text).first
        await found.wait_for()
        return found

    def button(self, name: str, *, within: str = "main") -> Any:
        return self.page.locator(within).get_by_role("button", name=name, exact=True)

    def row(self, text: str) -> Any:
        return self.page.locator("main tbody tr").filter(has_text=text)

    async def confirm(self, name: str) -> None:
        """Presses the button in the dialog that is open."""
        await self.button(name, within="dialog").click()

    async def closed(self) -> None:
        """Waits until no dialog is open."""
        await self.page.wait_for_selector("dialog", state="detached")

    async def notice(self, text: str) -> None:
        await self.see(text, within="#notices")

    async def overflow(self) -> int:
        """How far the page is wider than the window."""
        wide: int = await self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return wide
