"""The router on paths as they are sent: segments, precedence, prefixes, what is not found."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.api.routing import RawRoute, RawRouter, raw_route_path

PATHS = (
    "/queues",
    "/queues/actions/sample",
    "/queues/{queue}",
    "/queues/{queue}/pause",
    "/jobs/counts",
    "/jobs/{id}",
    "/jobs/{id}/{part}",
)


class Echo:
    """Answers with the path of its route and the parameters."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parameters = {
            name: value.encode("utf-8", "replace").decode()
            for name, value in scope["path_params"].items()
        }
        await PlainTextResponse(f"{scope['route'].path} {parameters}")(scope, receive, send)


def router() -> RawRouter:
    return RawRouter([RawRoute(path, Echo()) for path in PATHS])


def scope_of(raw_path: str | None, **changes: Any) -> Scope:
    return {
        "type": "http",
        "method": "GET",
        "path": raw_path or "",
        "raw_path": raw_path and raw_path.encode("latin-1"),
        "query_string": b"",
        "headers": [],
        **changes,
    }


async def ask(app: ASGIApp, scope: Scope) -> tuple[int, str]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]).decode()


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/queues", "/queues {}"),
        ("/queues/a", "/queues/{queue} {'queue': 'a'}"),
        ("/queues/a%2Fb", "/queues/{queue} {'queue': 'a/b'}"),
        ("/queues/%2F/pause", "/queues/{queue}/pause {'queue': '/'}"),
        ("/queues/a+b", "/queues/{queue} {'queue': 'a+b'}"),
        ("/queues/%C3%A9", "/queues/{queue} {'queue': 'é'}"),
        ("/queues/%", "/queues/{queue} {'queue': '%'}"),
        ("/queues/%zz", "/queues/{queue} {'queue': '%zz'}"),
        ("/queues/%252F", "/queues/{queue} {'queue': '%2F'}"),
        ("/queues/..", "/queues/{queue} {'queue': '..'}"),
        ("/queues/{queue}", "/queues/{queue} {'queue': '{queue}'}"),
        ("/jobs/counts", "/jobs/counts {}"),
        ("/jobs/count", "/jobs/{id} {'id': 'count'}"),
        # A literal that leads nowhere gives way to the parameter beside it.
        ("/queues/actions", "/queues/{queue} {'queue': 'actions'}"),
        ("/queues/actions/sample", "/queues/actions/sample {}"),
        ("/queues/actions/pause", "/queues/{queue}/pause {'queue': 'actions'}"),
        ("/jobs/counts/x", "/jobs/{id}/{part} {'id': 'counts', 'part': 'x'}"),
    ],
)
async def test_a_path_finds_its_route(path: str, answer: str) -> None:
    assert await ask(router(), scope_of(path)) == (200, answer)


@pytest.mark.parametrize(
    "path",
    ["", "/", "*", "//queues", "/queues/", "/queues//", "/queues//pause", "/queues/a/pause/",
     "/queues/a/b", "/Queues", "/%71ueues", "/jobs", "/jobs/", "/jobs/a/b/c", "/jobs/a//",
     "queues", "/queues%2Fa", "/" * 5000],
)  # fmt: skip
async def test_any_other_path_is_not_found(path: str) -> None:
    assert await ask(router(), scope_of(path or None)) == (404, "")


async def test_bytes_that_are_not_utf8_are_left_for_the_endpoint_to_refuse() -> None:
    seen: list[str] = []

    class Remember:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            seen.append(scope["path_params"]["id"])
            await Response()(scope, receive, send)

    app = RawRouter([RawRoute("/jobs/{id}", Remember())])
    for path in ("/jobs/%FF", "/jobs/\xff"):
        await ask(app, scope_of(path))
    assert seen == ["\udcff", "\udcff"]


@pytest.mark.parametrize(
    ("raw", "root", "below"),
    [
        (b"/ops/jobs/a%2Fb", "/ops", b"/jobs/a%2Fb"),
        (b"/ops", "/ops", b""),
        (b"/opsx/jobs", "/ops", b"/opsx/jobs"),
        (b"/jobs", "/ops", b"/jobs"),
        (b"/o%70s/jobs", "/ops", b"/jobs"),
        (b"/t%C3%A9/a%20b/jobs/%2F", "/té/a b", b"/jobs/%2F"),
        (b"/a%2Fb/jobs", "/a/b", b"/jobs"),
        (b"/jobs", "", b"/jobs"),
    ],
)
def test_the_mount_point_is_cut_off(raw: bytes, root: str, below: bytes) -> None:
    assert raw_route_path({"raw_path": raw, "path": "unused", "root_path": root}) == below


def test_without_a_raw_path_the_decoded_one_has_to_do() -> None:
    assert raw_route_path({"path": "/jobs/a%b é"}) == b"/jobs/a%25b%20%C3%A9"


async def test_it_works_below_another_application() -> None:
    inner = Starlette()
    inner.router = router()
    outer = Starlette(routes=[Mount("/tenants/{tenant}/ops", inner)])
    scope = scope_of("/tenants/a%20b/ops/queues/a%2Fb", path="/tenants/a b/ops/queues/a/b")
    status, text = await ask(outer, scope)
    assert (status, text) == (200, "/queues/{queue} {'tenant': 'a b', 'queue': 'a/b'}")


async def test_routes_of_another_kind_are_asked_after_ours() -> None:
    async def page(request: Request) -> Response:
        return PlainTextResponse("page")

    app = Starlette()
    app.router = router()
    app.router.routes.append(Route("/page", page))
    assert await ask(app, scope_of("/page")) == (200, "page")
    assert await ask(app, scope_of("/queues")) == (200, "/queues {}")
    assert await ask(app, scope_of("/nosuch")) == (404, "")


def test_a_route_matches_by_itself_too() -> None:
    route = RawRoute("/jobs/{id}/result", Echo())
    match, child = route.matches(scope_of("/jobs/a%2Fb/result"))
    assert match is Match.FULL
    assert child["path_params"] == {"id": "a/b"}
    for path in ("/jobs/a/b", "/jobs//result", "/jobs/a", "/jobs/a/result/"):
        assert route.matches(scope_of(path)) == (Match.NONE, {})
    assert route.matches({"type": "websocket"}) == (Match.NONE, {})


def test_a_table_that_cannot_be_served_is_refused() -> None:
    with pytest.raises(ValueError, match="whole segment"):
        RawRoute("/jobs/{id}.json", Echo())
    with pytest.raises(ValueError, match="two routes for one path"):
        RawRouter([RawRoute("/jobs/{id}", Echo()), RawRoute("/jobs/{name}", Echo())])
