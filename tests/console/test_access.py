"""Who may not change anything finds nothing that does, and tokens stay where they belong."""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.model.access import AccessToken, Role, hash_token
from headgate.store.store import Store
from tests.console.screen import Screen
from tests.console.seeding import ENCRYPTION
from tests.console.serving import served
from tests.console.test_views import VIEWS

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOKENS: Final = {role: f"token-of-the-{role}" for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN)}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def read_only_site(shared_store: Store) -> AsyncIterator[str]:
    async with served(create_app(shared_store, ApiConfig(read_only=True))) as base:
        yield f"{base}/"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def guarded_site(shared_store: Store) -> AsyncIterator[str]:
    tokens = tuple(
        AccessToken(token_hash=hash_token(text.encode()), identity=f"the-{role}", role=role)
        for role, text in TOKENS.items()
    )
    config = ApiConfig(tokens=tokens, require_token=True, revealer=ENCRYPTION.reveal)
    async with served(create_app(shared_store, config)) as base:
        yield f"{base}/"


@pytest_asyncio.fixture(loop_scope="session")
async def guarded(browser: Any, guarded_site: str) -> Any:
    async with Screen.opened(browser, guarded_site) as opened:
        opened.expected.add(401)
        yield opened
        opened.assert_clean()


async def sign_in(screen: Screen, role: Role, *, keep: bool = False) -> None:
    await screen.page.goto(screen.site)
    await screen.page.get_by_label("Token").fill(TOKENS[role])
    await screen.page.get_by_label("Keep it").set_checked(keep)
    await screen.page.get_by_role("button", name="Sign in").click()
    await screen.settled()


KEPT: Final = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
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
    await sign_in(guarded, Role.VIEWER, keep=True)
    await guarded.see("the-viewer", within=".side")
    assert await press_everything(guarded) > 50
    await guarded.go("jobs", "dead-3")
    show = guarded.button("Show payload")
    assert await show.get_attribute("aria-disabled") == "true"
    assert await guarded.page.get_by_role("link", name="Audit").count() == 0


async def test_an_operator_does_not_get_to_see_payloads(guarded: Screen) -> None:
    await sign_in(guarded, Role.OPERATOR)
    await guarded.follow(guarded.page.get_by_role("link", name="Queues", exact=True))
    await guarded.follow(guarded.row("mail").get_by_role("link").first)
    assert await guarded.button("Pause").get_attribute("aria-disabled") is None
    assert await guarded.button("Weight").get_attribute("aria-disabled") == "true"


async def test_an_admin_opens_what_is_sealed_where_something_opens_it(
    guarded: Screen, site: str, browser: Any
) -> None:
    page = guarded.page
    await sign_in(guarded, Role.ADMIN, keep=True)
    await guarded.go("jobs", "sealed-1")
    await guarded.button("Show payload").click()
    await guarded.button("Show revealed").click()
    await guarded.see('"4111 1111"')
    assert "4111" not in await page.evaluate(KEPT)
    await guarded.button("Hide revealed").click()
    await page.get_by_text("4111 1111").wait_for(state="detached")
    # It is gone for whoever comes back, too.
    await guarded.button("Show revealed").click()
    await guarded.see('"4111 1111"')
    await guarded.go("queues")
    await guarded.go("jobs", "sealed-1")
    assert await page.get_by_text("4111 1111").count() == 0
    async with Screen.opened(browser, site) as screen:
        await screen.go("jobs", "sealed-1")
        await screen.button("Show payload").click()
        await screen.see("48 47 45 43")
        assert await screen.button("Show revealed").count() == 0
        screen.assert_clean()


async def test_a_wrong_token_is_told(guarded: Screen) -> None:
    await guarded.page.goto(guarded.site)
    for wrong in ("nobody", "no tök en"):
        await guarded.page.get_by_label("Token").fill(wrong)
        await guarded.page.get_by_role("button", name="Sign in").click()
        await guarded.page.get_by_text("This token is not known here.").wait_for()


async def test_a_token_is_kept_no_longer_than_wanted(guarded: Screen) -> None:
    page = guarded.page
    await sign_in(guarded, Role.ADMIN)
    assert TOKENS[Role.ADMIN] not in await page.evaluate(KEPT)
    await page.reload()
    await page.get_by_label("Token").wait_for()
    await sign_in(guarded, Role.ADMIN, keep=True)
    assert TOKENS[Role.ADMIN] not in await page.evaluate("JSON.stringify({...localStorage})")
    await page.reload()
    await guarded.settled()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("Token").wait_for()
    assert TOKENS[Role.ADMIN] not in await page.evaluate(KEPT)


async def test_a_token_that_is_revoked_leads_back_to_the_door(guarded: Screen) -> None:
    await sign_in(guarded, Role.VIEWER)
    await guarded.page.route(
        "**/api/v1/queues*",
        lambda route: route.fulfill(status=401, json={"error": "authentication required"}),
    )
    await guarded.page.get_by_role("link", name="Queues", exact=True).click()
    await guarded.page.get_by_label("Token").wait_for()
