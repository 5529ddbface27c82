"""Names that look like markup, that hold what an address reserves, that never end."""

from typing import Any

import pytest

from headgate.api.application import create_app
from headgate.model.envelope import Envelope
from headgate.model.policy import ConcurrencyLimit
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.console.screen import MIDDLE, NARROW, WIDE, Screen
from tests.console.seeding import DOTS, IMAGE, LONG, RESERVED
from tests.console.serving import served

pytestmark = pytest.mark.asyncio(loop_scope="session")

named = pytest.mark.parametrize(
    "text", [IMAGE, RESERVED, DOTS, LONG], ids=["markup", "reserved", "dots", "long"]
)


@named
async def test_they_are_text_and_lead_where_they_say(screen: Screen, text: str) -> None:
    page = screen.page
    await screen.go("jobs", state="archived")
    row = page.locator("tbody tr").filter(has=page.get_by_title(text, exact=True)).first
    await screen.follow(row.locator("td.main a"))
    await page.get_by_role("heading", name=text, exact=True).wait_for()
    await screen.see("Why it is not running")
    await screen.button("Show payload").click()
    await page.get_by_label("Payload", exact=True).filter(has_text=text[:20]).wait_for()
    await page.locator("summary").click()
    queue = page.locator(".facts div").filter(has=page.get_by_text("Queue", exact=True))
    await screen.follow(queue.get_by_role("link"))
    await page.get_by_role("heading", name=f"Queue {text}", exact=True).wait_for()
    await screen.button("Pause").click()
    await screen.confirm("Pause 1 queue")
    await screen.button("Resume").click()
    await screen.confirm("Resume 1 queue")
    await screen.button("Pause").wait_for()
    assert await page.locator("main img").count() == 0
    for width, height in (WIDE, MIDDLE, NARROW):
        await page.set_viewport_size({"width": width, "height": height})
        assert await screen.overflow() <= 0, width


@named
async def test_they_are_found_by_the_filters(screen: Screen, text: str) -> None:
    await screen.go("jobs", queue=text)
    rows = screen.page.locator("tbody tr")
    await rows.first.wait_for()
    assert await rows.count() == 1
    await screen.follow(rows.locator("td.kind a").nth(2))
    assert "partition_key=" in screen.page.url
    assert await rows.count() == 1
    assert await rows.locator("td.main a").get_attribute("title") == text


async def test_what_turns_text_around_is_shown_as_what_it_is(screen: Screen) -> None:
    await screen.go("queues", "\u202egnp.exe")
    await screen.see("There is no such queue")
    await screen.go("jobs", "\u202egnp.exe")
    await screen.see("There is no such job")
    screen.wrong = [each for each in screen.wrong if "404" not in each]


async def test_what_no_browser_can_ask_for_spoils_no_view(
    browser: Any, headgate_database: str
) -> None:
    async with (
        Store(StoreSettings(dsn=headgate_database)) as store,
        served(create_app(store)) as base,
        Screen.opened(browser, f"{base}/") as screen,
    ):
        await store.producer.enqueue([Envelope(kind="mail", queue="..")])
        await store.policies.put_concurrency_limit(
            ConcurrencyLimit(name="limit", queue="..", max_concurrent=1, on_saturated="queue")
        )
        for place in ((), ("queues",), ("policies",)):
            await screen.go(*place)
            await screen.page.wait_for_function(
                "() => document.querySelector('main').dataset.looks > 1"
            )
            assert await screen.page.get_by_role("alert").count() == 0, place
        await screen.go("queues", "..")
        await screen.see("a browser cannot ask for something named")
        screen.assert_clean()
        await screen.page.goto("about:blank")
