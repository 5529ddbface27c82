"""Every view shows what there is, in both themes, at every width, for everybody."""

import json
from collections.abc import AsyncIterator
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
