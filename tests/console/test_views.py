"""Every view shows what there is, in both themes, at every width, for everybody."""

from typing import Any, Final

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped] # has no types

from headgate.api.application import create_app
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.console.screen import MIDDLE, NARROW, Screen
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
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    # One row is like the next, and each costs time.
    context = {"exclude": ["tbody tr:nth-child(n + 5)"]}
    found = (await Axe().run(page, context, options)).response["violations"]
    return [
        f"{each['id']}: {node['html']}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


@every_view
async def test_what_there_is_can_be_seen_and_used(
    screen: Screen, path: tuple[str, ...], text: str
) -> None:
    # A page full of jobs would take axe longer than all the rest.
    await screen.go(*path, **({"queue": "reports"} if path == ("jobs",) else {}))
    await screen.still()
    if text:
        await screen.see(text)
    assert await faults_of(screen.page) == []
    for width, height in (MIDDLE, NARROW):
        await screen.page.set_viewport_size({"width": width, "height": height})
        assert await screen.overflow() <= 0, width
    # Only colours are others there.
    await screen.page.emulate_media(color_scheme="dark")
    assert await faults_of(screen.page, "color-contrast") == []


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
