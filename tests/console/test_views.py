"""Every view shows what there is, in both themes, at every width, for everybody."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import pytest_asyncio
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped] # has no types

from headgate.api.application import create_app
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.console.screen import MIDDLE, NARROW, WIDE, Screen, Theme
from tests.console.serving import served

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What other tests change has no text of its own.
VIEWS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "overview": ((), "Queues under pressure"),
    "jobs": (("jobs",), "report-w-3"),
    "a waiting job": (("jobs", "mail-00042"), "Why it is not running"),
    "a running job": (("jobs", "report-1"), "It has been running for"),
    "a dead job": (("jobs", "dead-3"), "connection reset by peer"),
    "queues": (("queues",), "thumbnails"),
    "a queue": (("queues", "mail"), "Partitions that wait"),
    "schedules": (("periodic",), "nightly-report"),
    "a schedule": (("periodic", "nightly-report"), "Next ticks"),
    "workers": (("workers",), "host-2-812"),
    "policies": (("policies",), "report-per-tenant"),
    "quarantine": (("quarantine",), ""),
    "operations": (("operations",), ""),
    "workflows": (("workflows",), "nightly-import"),
    "a workflow": (("workflows", "nightly-import"), "tell everybody"),
    "audit": (("audit",), ""),
    "enqueueing": (("enqueue",), "Payload"),
    "nowhere": (("no", "such", "place"), "There is no such place"),
}

every_view = pytest.mark.parametrize(("path", "text"), VIEWS.values(), ids=VIEWS)

SERIOUS: Final = ("serious", "critical")


async def faults_of(page: Any, *rules: str) -> list[str]:
    """What axe holds against the page, by some rules or by all."""
    # Room for a finger is the one rule of WCAG 2.2 that axe leaves out unless it is told.
    options: dict[str, Any] = {
        "resultTypes": ["violations"],
        "rules": {"target-size": {"enabled": True}},
    }
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    # One row is like the next, and each costs time.
    context = {"exclude": ["tbody tr:nth-child(n + 5)"]}
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE_SCRIPT)
    asked = ", ".join(map(json.dumps, (context, options)))
    found = (await page.evaluate(f"axe.run({asked})"))["violations"]
    return [
        f"{each['id']}: {node['html']}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tour(context: Any, site: str) -> AsyncIterator[Screen]:
    """A tab in which one view after the other is looked at, and nothing moves."""
    async with Screen.tab(context, site) as screen:
        await screen.go("enqueue")
        await screen.still()
        yield screen


async def show(screen: Screen, size: tuple[int, int], theme: Theme) -> None:
    width, height = size
    await screen.page.set_viewport_size({"width": width, "height": height})
    await screen.page.emulate_media(color_scheme=theme)


@every_view
async def test_what_there_is_can_be_seen_and_used(
    tour: Screen, path: tuple[str, ...], text: str
) -> None:
    await show(tour, WIDE, "light")
    # A page full of jobs would take axe longer than all the rest.
    await tour.go(*path, **({"queue": "reports"} if path == ("jobs",) else {}))
    if text:
        await tour.see(text)
    assert await faults_of(tour.page) == []
    for size in (MIDDLE, NARROW):
        await show(tour, size, "light")
        assert await tour.overflow() <= 0, size
    # Only colours and places are others there.
    await show(tour, NARROW, "dark")
    assert await faults_of(tour.page, "color-contrast", "target-size") == []
    tour.assert_clean()


@asynccontextmanager
async def slow(page: Any, *paths: str) -> AsyncIterator[None]:
    """Answers of the API to requests that hold one of the paths do not come during the block."""
    over = asyncio.Event()

    async def wait(route: Any) -> None:
        await over.wait()
        await route.continue_()

    for path in paths:
        await page.route(f"**/api/v1/{path}", wait)
    yield
    over.set()
    await page.unroute_all(behavior="wait")


async def test_the_overview_is_there_before_what_takes_long_to_tell(screen: Screen) -> None:
    page = screen.page
    await show(screen, WIDE, "light")
    table = page.get_by_role("table", name="Queues under pressure")
    # Which queues are there depends on what others have done to this server.
    age = table.locator("tbody tr").first.locator("td").nth(5)
    held = page.get_by_role("region", name="Held at the gate")
    oldest = page.locator(".figure", has_text="Oldest waiting").locator("strong")
    async with slow(page, "queues?*", "queues/*/blocked"):
        await screen.go()
        await held.get_by_text("Asking…").wait_for()
        assert await oldest.inner_text() == "…"
        assert await age.inner_text() == "…"
        assert await table.locator("tbody tr").first.get_by_role("link").count() > 1
        place = await table.bounding_box()
    await held.get_by_text("queue paused").wait_for()
    assert "…" not in await oldest.inner_text()
    assert "…" not in await age.inner_text()
    assert await table.bounding_box() == place
    # What was known stays until there is something new.
    async with slow(page, "queues?*", "queues/*/blocked"):
        async with page.expect_request("**/queues/*/blocked"):
            await page.keyboard.press("r")
        assert await held.get_by_text("queue paused").count() == 1
        assert "…" not in await oldest.inner_text()


async def test_policies_are_there_before_how_far_they_are_used(screen: Screen) -> None:
    page = screen.page
    async with slow(page, "queues/*/blocked"):
        await screen.go("policies")
        limit = screen.row("report-per-tenant")
        assert await limit.locator("td").nth(3).inner_text() == "…"
        assert await limit.get_by_role("button", name="Change").is_enabled()
    await limit.get_by_text("held").wait_for()


async def test_a_line_that_cannot_be_told_is_left_out(screen: Screen) -> None:
    page = screen.page
    await page.route("**/api/v1/queues/*/history?*", lambda route: route.abort())
    await screen.go("queues")
    await page.wait_for_function("() => document.querySelector('main').dataset.looks > 1")
    assert await page.get_by_role("alert").count() == 0
    assert await screen.row("thumbnails").locator("svg.sparkline").count() == 1
    screen.wrong = [each for each in screen.wrong if "ERR_FAILED" not in each]


async def test_where_there_is_nothing_every_place_says_so(
    browser: Any, headgate_database: str
) -> None:
    async with (
        Store(StoreSettings(dsn=headgate_database)) as store,
        served(create_app(store)) as base,
        Screen.opened(browser, f"{base}/") as screen,
    ):
        await screen.go()
        await screen.see("All is quiet: no work is waiting.")
        assert await faults_of(screen.page) == []
        for place in (
            "jobs", "queues", "periodic", "workflows", "workers", "policies", "quarantine",
            "operations", "audit",
        ):  # fmt: skip
            await screen.go(place)
            words = await screen.page.locator("main .empty p").all_inner_texts()
            assert len(words) >= 2, place
        screen.assert_clean()
        await screen.page.goto("about:blank")
