"""Finding one's way: addresses, the keyboard, what is live and what is kept."""

from typing import Any, Final

import pytest

from tests.console.screen import NARROW, Screen
from tests.console.test_actions import enqueue

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_back_and_forward_keep_filter_page_and_place(screen: Screen) -> None:
    page = screen.page
    await screen.go("jobs", queue="mail", state="completed")
    await screen.follow(page.get_by_role("link", name="Next"))
    assert "cursor=" in page.url
    before = page.url
    shown = await page.locator("tbody tr td.main").all_inner_texts()
    await page.evaluate("scrollTo(0, 400)")
    await page.wait_for_function("() => history.state?.scroll === 400")
    await screen.follow(page.locator("tbody tr td.main a").nth(20))
    await screen.see("How it ended")
    assert await page.evaluate("scrollY") == 0
    await page.go_back()
    await page.wait_for_function("() => scrollY === 400")
    await screen.settled()
    assert page.url == before
    assert await page.locator("tbody tr td.main").all_inner_texts() == shown
    await page.go_back()
    await screen.settled()
    assert "cursor" not in page.url
    assert await page.locator("tbody tr td.main").all_inner_texts() != shown
    await page.go_forward()
    await page.go_forward()
    await screen.see("How it ended")


async def test_pages_lead_forth_and_back(screen: Screen) -> None:
    page = screen.page
    await screen.go("jobs", state="completed")
    seen = [await page.locator("tbody tr td.main").all_inner_texts()]
    for _ in range(2):
        await screen.follow(page.get_by_role("link", name="Next"))
        seen.append(await page.locator("tbody tr td.main").all_inner_texts())
    assert len({job for jobs in seen for job in jobs}) == 150
    for expected in (seen[1], seen[0]):
        await screen.follow(page.get_by_role("link", name="Previous"))
        assert await page.locator("tbody tr td.main").all_inner_texts() == expected


async def test_the_search_suggests_and_finds(screen: Screen) -> None:
    page = screen.page
    await screen.go("jobs")
    await page.keyboard.press("/")
    field = page.get_by_label("Search jobs")
    await field.press_sequentially("state:arch")
    suggested = "text => document.querySelector('datalist option')?.value === text"
    await page.wait_for_function(suggested, arg="state:archived")
    await field.fill("state:archived queue:ma")
    await page.wait_for_function(suggested, arg="state:archived queue:mail")
    await field.fill("state:archived queue:mail")
    await field.press("Enter")
    await page.wait_for_url("**q=state%3Aarchived**")
    await screen.settled()
    await screen.row("dead-3").wait_for()
    assert set(await page.locator("tbody td.state").all_inner_texts()) == {"archived"}


async def test_a_search_that_cannot_be_is_told_beside_it(screen: Screen) -> None:
    screen.expected.add(400)
    await screen.go("jobs", q="colour:red")
    await screen.see("unknown search field `colour`")
    assert await screen.page.get_by_label("Search jobs").input_value() == "colour:red"


# As fast as a hand, however slow the machine.
CHORD: Final = """
keys => keys.forEach(key =>
  document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})))
"""


async def test_everything_is_reached_by_the_keyboard(screen: Screen) -> None:
    page = screen.page
    await screen.go("jobs", state="archived", queue="mail")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await screen.see("1 job selected")
    await page.keyboard.press("k")
    await page.keyboard.press("Escape")
    await page.get_by_text("1 job selected").wait_for(state="detached")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await screen.see("Why it is not running")
    for key, place in (("q", "Queues"), ("w", "Workers"), ("o", "Overview")):
        await page.evaluate(CHORD, ["g", key])
        await page.get_by_role("heading", name=place, exact=True).wait_for()
    await page.keyboard.press("?")
    await screen.see("next and previous row", within="dialog")
    await page.keyboard.press("Escape")
    await screen.closed()
    await page.keyboard.press("n")
    await page.get_by_role("heading", name="Enqueue a job").wait_for()


async def test_news_come_by_themselves_and_can_be_stopped(screen: Screen) -> None:
    page = screen.page
    await screen.go("jobs", queue="news")
    await screen.see("No job is like that")
    await page.get_by_role("button", name="live").wait_for()
    await enqueue(screen, "news-1", queue="news")
    await screen.row("news-1").wait_for()
    await page.keyboard.press("l")
    await page.get_by_role("button", name="paused").wait_for()
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request.url))
    await enqueue(screen, "news-2", queue="news")
    await page.wait_for_timeout(1_500)
    assert asked == []
    await page.keyboard.press("r")
    await screen.row("news-2").wait_for()


async def test_the_theme_is_kept(screen: Screen) -> None:
    page = screen.page
    await screen.go()
    light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):
        await page.get_by_role("button", name="Colours").click()
    dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    await page.reload()
    await screen.settled()
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    await page.evaluate("localStorage.clear()")


async def test_on_a_narrow_screen_the_places_are_behind_a_button(screen: Screen) -> None:
    width, height = NARROW
    await screen.page.set_viewport_size({"width": width, "height": height})
    await screen.go()
    places = screen.page.get_by_role("navigation", name="Places")
    assert not await places.is_visible()
    await screen.page.get_by_role("button", name="Places").click()
    await places.get_by_role("link", name="Queues").click()
    await screen.row("thumbnails").wait_for()
    assert not await places.is_visible()


async def test_a_server_that_is_away_is_told_and_comes_back(screen: Screen) -> None:
    page = screen.page
    await screen.go("queues")
    await page.route("**/api/v1/queues?*", lambda route: route.abort())
    await page.keyboard.press("r")
    await page.get_by_role("button", name="no answer").wait_for()
    await screen.still()
    await screen.see("the API does not answer")
    # What was there is still there.
    assert await screen.row("thumbnails").count() == 1
    await page.unroute("**/api/v1/queues?*")
    await screen.button("Try again").click()
    await page.get_by_text("the API does not answer").wait_for(state="detached")
    screen.wrong = [each for each in screen.wrong if "ERR_FAILED" not in each]


async def test_a_page_that_stays_open_does_not_grow(screen: Screen) -> None:
    page = screen.page
    devtools = await page.context.new_cdp_session(page)

    async def look(times: int) -> tuple[int, float]:
        for _ in range(times):
            await screen.look()
        await devtools.send("HeapProfiler.collectGarbage")
        used = (await devtools.send("Runtime.getHeapUsage"))["usedSize"]
        nodes = (await devtools.send("Memory.getDOMCounters"))["nodes"]
        return nodes, used

    await screen.go()
    await screen.still()
    nodes, used = await look(5)
    nodes_later, used_later = await look(10)
    assert nodes_later <= nodes * 1.1
    assert used_later <= used * 1.2 + 200_000
