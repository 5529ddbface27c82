"""Who may not change anything finds nothing that does, and tokens stay where they belong."""

from typing import Any, Final

import pytest
import pytest_asyncio

from headgate.model.access import hash_token
from tests.console.conftest import url_of
from tests.console.screen import Screen
from tests.console.test_views import VIEWS
from tests.contract.serving import Start

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOKENS: Final = {role: f"token-of-the-{role}" for role in ("viewer", "operator", "admin")}


@pytest.fixture(scope="session")
def read_only_site(start: Start, database: str) -> str:
    return url_of(start(database, "--read-only"))


@pytest.fixture(scope="session")
def guarded_site(start: Start, database: str) -> str:
    lines = (
        f"the-{role} {role} sha256:{hash_token(TOKENS[role].encode()).hex()}" for role in TOKENS
    )
    return url_of(start(database, HEADGATE_TOKENS="\n".join(lines)))


@pytest_asyncio.fixture(loop_scope="session")
async def guarded(browser: Any, guarded_site: str) -> Any:
    async with Screen.opened(browser, guarded_site) as opened:
        opened.expected.add(401)
        yield opened
        opened.assert_clean()


async def sign_in(screen: Screen, role: str, *, keep: bool = False) -> None:
    await screen.page.goto(screen.site)
    await screen.page.get_by_label("Token").fill(TOKENS[role])
    await screen.page.get_by_label("Keep it").set_checked(keep)
    await screen.page.get_by_role("button", name="Sign in").click()
    await screen.settled()


PRESS_ALL: Final = """
() => [...document.querySelectorAll("main button[data-action]")].map((button) => {
  button.click();
  return button.getAttribute("aria-disabled");
})
"""


async def press_everything(screen: Screen) -> int:
    """Presses whatever might change something, in every view."""
    pressed = 0
    for path, _ in VIEWS.values():
        await screen.go(*path)
        disabled = await screen.page.evaluate(PRESS_ALL)
        assert set(disabled) <= {"true"}, path
        pressed += len(disabled)
        submit = screen.page.locator("main form button[type=submit]:not(.search button)")
        if await submit.count():
            assert await submit.is_disabled()
    assert await screen.page.locator("dialog").count() == 0
    assert screen.mutations == []
    return pressed


async def test_a_read_only_console_changes_nothing(browser: Any, read_only_site: str) -> None:
    async with Screen.opened(browser, read_only_site) as screen:
        await screen.go()
        await screen.see("read-only", within=".side")
        assert await press_everything(screen) > 50
        await screen.go("jobs", "dead-3")
        await screen.button("Show payload").click()
        await screen.see("9007199254740993")
        screen.assert_clean()


async def test_a_viewer_changes_nothing(guarded: Screen) -> None:
    await sign_in(guarded, "viewer", keep=True)
    await guarded.see("the-viewer", within=".side")
    assert await press_everything(guarded) > 50
    await guarded.go("jobs", "dead-3")
    show = guarded.button("Show payload")
    assert await show.get_attribute("aria-disabled") == "true"
    assert await guarded.page.get_by_role("link", name="Audit").count() == 0


async def test_an_operator_does_not_get_to_see_payloads(guarded: Screen) -> None:
    await sign_in(guarded, "operator")
    await guarded.follow(guarded.page.get_by_role("link", name="Queues", exact=True))
    await guarded.follow(guarded.row("mail").get_by_role("link").first)
    assert await guarded.button("Pause").get_attribute("aria-disabled") is None
    assert await guarded.button("Weight").get_attribute("aria-disabled") == "true"


async def test_a_wrong_token_is_told(guarded: Screen) -> None:
    await guarded.page.goto(guarded.site)
    for wrong in ("nobody", "no tök en"):
        await guarded.page.get_by_label("Token").fill(wrong)
        await guarded.page.get_by_role("button", name="Sign in").click()
        await guarded.page.get_by_text("This token is not known here.").wait_for()


async def test_a_token_is_kept_no_longer_than_wanted(guarded: Screen) -> None:
    page = guarded.page
    await sign_in(guarded, "admin")
    kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    assert TOKENS["admin"] not in await page.evaluate(kept)
    await page.reload()
    await page.get_by_label("Token").wait_for()
    await sign_in(guarded, "admin", keep=True)
    assert TOKENS["admin"] not in await page.evaluate("JSON.stringify({...localStorage})")
    await page.reload()
    await guarded.settled()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("Token").wait_for()
    assert TOKENS["admin"] not in await page.evaluate(kept)


async def test_a_token_that_is_revoked_leads_back_to_the_door(guarded: Screen) -> None:
    await sign_in(guarded, "viewer")
    await guarded.page.route(
        "**/api/v1/queues*",
        lambda route: route.fulfill(status=401, json={"error": "authentication required"}),
    )
    await guarded.page.get_by_role("link", name="Queues", exact=True).click()
    await guarded.page.get_by_label("Token").wait_for()
