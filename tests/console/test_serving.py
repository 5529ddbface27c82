"""The files of the console on the wire, and below a prefix."""

import gzip
import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.api.console import ROOT
from headgate.store.store import Store
from tests.console.screen import Screen
from tests.console.serving import served
from tests.contract.client import Client

MAX_BYTES: Final = 150 * 1024
PREFIX: Final = "/ops/hg"
DOTTED: Final = "a/b?c#d%20 é"


@pytest.fixture
async def client(store: Store) -> Client:
    return Client(create_app(store), prefix="")


async def files_of(client: Client) -> list[str]:
    shell = (await client.get("/")).body.decode()
    return [f"/{path}" for path in re.findall(r'(?:src|href)="(.*?)"', shell)]


async def test_the_files_and_what_is_said_of_them(client: Client) -> None:
    types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    paths = await files_of(client)
    assert len(paths) == len(types)
    for path in paths:
        answer = await client.get(path)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith(types[path.rpartition(".")[2]])
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"
        packed = await client.get(path, headers=[("accept-encoding", "br, gzip")])
        assert gzip.decompress(packed.body) == answer.body
        head = await client.request("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == answer.headers["content-length"]


async def test_the_shell_is_asked_for_again_and_runs_nothing_of_its_own(client: Client) -> None:
    shell = await client.get("/")
    assert shell.headers["content-type"] == "text/html; charset=utf-8"
    assert shell.headers["cache-control"] == "no-cache"
    policy = shell.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    text = shell.body.decode()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", text)
    assert not re.search(r"(src|href)=\"(/|\w+:)", text), "an address that is not relative"
    known = await client.get("/", headers=[("if-none-match", shell.headers["etag"])])
    assert (known.status, known.body) == (304, b"")


async def test_another_version_is_answered_but_not_kept(client: Client) -> None:
    answer = await client.get("/console/another/main.js")
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    ["/index.html", "/console", "/console/0/", "/console/0/nosuch.js", "/console/0/index.html",
     "/console/0/..%2Fapi%2Fconsole.py", "/console/0/views/..%2Fmain.js",
     "/console/0/views/job.js", "/favicon.ico", "/jobs"],
)  # fmt: skip
async def test_there_is_nothing_else(client: Client, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status, answer.body) == (404, b"")


async def test_nothing_can_be_sent_there(client: Client) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer = await client.request(method, "/")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_it_can_be_left_out(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(console=False)), prefix="")
    assert (await client.get("/")).status == 404
    assert (await client.get("/api/v1/meta")).status == 200


async def test_it_needs_no_token_and_no_database(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(require_token=True)), prefix="")
    assert (await client.get("/")).status == 200
    assert (await client.get("/api/v1/session")).status == 401


def test_it_is_small() -> None:
    size = sum(path.stat().st_size for path in ROOT.rglob("*") if path.is_file())
    assert size < MAX_BYTES


def stripping(app: ASGIApp) -> ASGIApp:
    """A proxy that takes the prefix away and tells nobody."""

    async def strip(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["raw_path"].startswith(PREFIX.encode())
        scope["path"] = scope["path"][len(PREFIX) :]
        scope["raw_path"] = scope["raw_path"][len(PREFIX) :]
        await app(scope, receive, send)

    return strip


def mounted(app: ASGIApp) -> ASGIApp:
    return Starlette(routes=[Mount(PREFIX, app)])


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("around", [mounted, stripping])
async def test_below_a_prefix_everything_stays_there(
    browser: Any, shared_store: Store, around: Callable[[ASGIApp], ASGIApp]
) -> None:
    async with (
        served(around(create_app(shared_store))) as base,
        Screen.opened(browser, f"{base}{PREFIX}/") as screen,
    ):
        await screen.go("jobs", queue=DOTTED)
        await screen.page.locator("tbody td.main a").click()
        await screen.see("Why it is not running")
        await screen.page.get_by_role("button", name="live").wait_for()
        await screen.page.locator(".facts").get_by_title(DOTTED).nth(1).click()
        await screen.page.get_by_role("heading", name=f"Queue {DOTTED}").wait_for()
        await screen.button("Pause").click()
        await screen.confirm("Pause 1 queue")
        await screen.button("Resume").click()
        await screen.confirm("Resume 1 queue")
        await screen.button("Pause").wait_for()
        await screen.page.get_by_role("link", name="API").wait_for()
        docs = await screen.page.get_by_role("link", name="API").get_attribute("href")
        assert docs == f"{base}{PREFIX}/api/v1/docs"
        # Of other sites nobody sends anything from here or to here.
        foreign = await screen.page.request.post(
            f"{base}{PREFIX}/api/v1/queues/x/pause",
            headers={
                "origin": "https://elsewhere.example",
                "sec-fetch-site": "cross-site",
                "content-type": "text/plain",
                "idempotency-key": "foreign",
            },
        )
        assert foreign.status == 403
        screen.assert_clean()
        await screen.page.goto("about:blank")
