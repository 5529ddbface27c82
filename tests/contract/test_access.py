"""Who may do what: walks over every operation, and each way to be somebody."""

import base64
from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import pytest
from starlette.applications import Starlette
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    BaseUser,
    SimpleUser,
)
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from headgate.api.access import HostAuthentication
from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.api.openapi import build_document
from headgate.api.operations import ANYONE, Operation
from headgate.api.table import OPERATIONS
from headgate.api.tokens import STORED_FOR_MS, TokenDirectory, read_tokens
from headgate.client.authorizer import EnqueueContext
from headgate.model.access import AccessToken, Role, hash_token
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest, NotFound
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.contract.client import Answer, Client, Header
from tests.contract.jobs import PLAIN, enqueue
from tests.contract.samples import by_family, call, target
from tests.contract.test_walk import contents
from tests.contract.wire import Wire

TOKENS: Final = tuple(
    AccessToken(token_hash=hash_token(role.encode()), identity=f"the {role}", role=role)
    for role in Role
)
UNKNOWN: Final = {"error": "authentication required"}
FORBIDDEN: Final = {"error": "forbidden"}
READ_ONLY: Final = {"error": "read-only mode"}

VIEWER, PRODUCER, OPERATOR, ADMIN = Role
ALLOWED: Final[Mapping[str, tuple[Role, ...]]] = {
    "healthz": ANYONE,
    "readyz": ANYONE,
    "enqueue_job": (PRODUCER, OPERATOR, ADMIN),
    "enqueue_batch": (PRODUCER, OPERATOR, ADMIN),
    "read_job": (VIEWER, PRODUCER, OPERATOR, ADMIN),
    "read_result": (ADMIN,),
    "read_output": (ADMIN,),
    "reveal_payload": (ADMIN,),
    "retry_job": (OPERATOR, ADMIN),
    "cancel_job": (OPERATOR, ADMIN),
    "promote_job": (OPERATOR, ADMIN),
    "reschedule_job": (OPERATOR, ADMIN),
    "edit_payload": (ADMIN,),
    "delete_job": (OPERATOR, ADMIN),
    "act_on_jobs": (OPERATOR, ADMIN),
    "act_in_bulk": (OPERATOR, ADMIN),
    "cancel_operation": (OPERATOR, ADMIN),
    "set_queue_weight": (ADMIN,),
    "delete_queue": (ADMIN,),
    "pause_queue": (OPERATOR, ADMIN),
    "resume_queue": (OPERATOR, ADMIN),
    "set_enqueue_limit": (ADMIN,),
    "clear_enqueue_limit": (ADMIN,),
    "sample_queue_memory": (OPERATOR, ADMIN),
    "put_rate_class": (ADMIN,),
    "delete_rate_class": (ADMIN,),
    "put_concurrency_limit": (ADMIN,),
    "delete_concurrency_limit": (ADMIN,),
    "release_fingerprint": (OPERATOR, ADMIN),
    "put_schedule": (ADMIN,),
    "delete_schedule": (ADMIN,),
    "run_schedule": (OPERATOR, ADMIN),
    "pause_schedule": (OPERATOR, ADMIN),
    "resume_schedule": (OPERATOR, ADMIN),
    "read_session": (VIEWER, PRODUCER, OPERATOR, ADMIN),
    "signal_worker": (OPERATOR, ADMIN),
    "retry_workflow": (OPERATOR, ADMIN),
    "cancel_workflow": (OPERATOR, ADMIN),
    "list_audit_entries": (ADMIN,),
}
"""Every other operation is a GET, for viewers, operators and admins."""


def allowed(operation: Operation) -> tuple[Role, ...]:
    if operation.name in ALLOWED:
        return ALLOWED[operation.name]
    assert operation.method == "GET", f"who may {operation.name}?"
    return (VIEWER, OPERATOR, ADMIN)


def bearer(token: str) -> list[Header]:
    return [("authorization", f"Bearer {token}")]


@pytest.fixture
async def store(store: Store) -> Store:
    """With a job that answers which should not be given would show."""
    await enqueue(Client(create_app(store)), "x")
    return store


@pytest.fixture
async def client(store: Store) -> Client:
    return Client(create_app(store, ApiConfig(tokens=TOKENS)))


async def ask(client: Client, operation: Operation, headers: list[Header], **named: Any) -> Answer:
    """A call that would succeed or find nothing, at the path where the operation really is."""
    bare = Client(client.app, prefix="")
    return await call(bare, operation, target(operation), headers=headers, **named)


@by_family
async def test_nobody_gets_in_without_a_token(
    client: Client, store: Store, operations: list[Operation]
) -> None:
    before = await contents(store)
    for operation in operations:
        await ask_as_nobody(client, operation)
    assert await contents(store) == before


async def ask_as_nobody(client: Client, operation: Operation) -> None:
    for headers in (
        [],
        bearer("unknown"),
        bearer(""),
        bearer("é" * 10_000),
        [("authorization", "viewer")],
        [("authorization", "Basic " + base64.b64encode(b"the viewer:viewer").decode())],
        [("authorization", ""), *bearer("admin")],
        [("cookie", "token=admin")],
    ):
        answer = await ask(client, operation, headers)
        if operation.public:
            assert answer.status == 200
        else:
            assert (answer.status, answer.json()) == (401, UNKNOWN)
            assert answer.headers["www-authenticate"] == "Bearer"


@by_family
async def test_a_role_may_do_its_own_and_nothing_else(
    client: Client, store: Store, operations: list[Operation]
) -> None:
    before = await contents(store)
    for operation, role in product(operations, Role):
        if role not in allowed(operation):
            for named in ({}, {"key": None}, {"json": None, "body": b"no json"}):
                answer = await ask(client, operation, bearer(role), **named)
                assert (answer.status, answer.json()) == (403, FORBIDDEN), (operation.name, role)
    assert await contents(store) == before
    for operation in operations:
        for role in allowed(operation):
            status = (await ask(client, operation, bearer(role))).status
            assert status not in (401, 403), (operation.name, role)


@by_family
async def test_read_only_wins_over_every_role(store: Store, operations: list[Operation]) -> None:
    client = Client(create_app(store, ApiConfig(tokens=TOKENS, read_only=True)))
    before = await contents(store)
    for operation, role in product(operations, Role):
        answer = await ask(client, operation, bearer(role))
        if operation.mutates:
            assert (answer.status, answer.json()) == (403, READ_ONLY), (operation.name, role)
        else:
            assert (answer.status == 403) == (role not in allowed(operation)), operation.name
    assert await contents(store) == before


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_the_document_tells_the_roles(operation: Operation) -> None:
    described = build_document([operation], "0")["paths"][operation.path][operation.method.lower()]
    if operation.public:
        assert "security" not in described
        assert "401" not in described["responses"]
    else:
        assert described["security"] == [{}, {"token": []}]
        assert described["x-roles"] == [role.value for role in allowed(operation)]
        assert {"401", "403"} <= set(described["responses"])


def test_the_table_of_roles_has_no_name_that_is_gone() -> None:
    assert set(ALLOWED) <= {operation.name for operation in OPERATIONS}


async def test_what_is_refused_first(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(tokens=TOKENS)))
    strict = Client(create_app(store, ApiConfig(tokens=TOKENS, read_only=True)))

    async def answer(where: Client, method: str, path: str, token: str) -> tuple[int, bytes]:
        found = await where.request(method, path, key=None, headers=bearer(token))
        return found.status, found.body

    assert await answer(client, "POST", "/nosuch", "unknown") == (404, b"")
    assert (await answer(strict, "PUT", "/queues/q", "unknown"))[0] == 401
    assert await answer(strict, "PUT", "/queues/q", "viewer") == (
        403,
        b'{"error":"read-only mode"}',
    )
    assert await answer(client, "PUT", "/queues/q", "viewer") == (403, b'{"error":"forbidden"}')
    assert (await answer(client, "PUT", "/queues/q", "admin"))[0] == 400
    assert (await answer(client, "POST", "/queues", "viewer"))[0] == 400
    assert (await answer(client, "PATCH", "/queues", "viewer"))[0] == 405
    assert (await answer(client, "PATCH", "/queues", "unknown"))[0] == 401
    assert (await answer(client, "PATCH", "/healthz", "unknown"))[0] == 405


async def test_payloads_are_for_admins(client: Client, store: Store) -> None:
    job = {**PLAIN, "id": "secret"}
    await client.request("POST", "/jobs", json=job, headers=bearer("producer"))
    for role in (VIEWER, PRODUCER, OPERATOR):
        plain = await client.get("/jobs/secret", headers=bearer(role))
        assert "payload" not in plain.json()
        answer = await client.get("/jobs/secret?include_payload=true", headers=bearer(role))
        assert (answer.status, answer.json()) == (403, FORBIDDEN)
    answer = await client.get("/jobs/secret?include_payload=true", headers=bearer("admin"))
    assert answer.json()["payload"] == "e30="


async def test_what_an_instance_keeps_back_it_keeps_from_admins_too(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(tokens=TOKENS, payloads=False)))
    answer = await client.get("/jobs/x?include_payload=true", headers=bearer("admin"))
    assert answer.status == 403


async def test_the_scheme_may_be_written_in_any_case(client: Client) -> None:
    for value in ("bearer viewer", "BEARER  viewer ", "Bearer viewer"):
        answer = await client.get("/queues", headers=[("authorization", value)])
        assert answer.status == 200


async def test_without_access_everybody_may_do_everything(store: Store) -> None:
    client = Client(create_app(store))
    for headers in ([], bearer("whatever")):
        assert (await client.get("/audit", headers=headers)).status == 200


# Tokens of the database


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def stored(store: Store) -> Client:
    await store.access_tokens.add(hash_token(b"kept"), "keeper", Role.OPERATOR)
    return Client(create_app(store, ApiConfig(require_token=True)))


async def test_a_stored_token_lets_in(stored: Client) -> None:
    assert (await stored.get("/queues", headers=bearer("kept"))).status == 200
    assert (await stored.get("/audit", headers=bearer("kept"))).status == 403
    assert (await stored.get("/queues", headers=bearer("other"))).status == 401
    assert (await stored.get("/queues")).status == 401


async def test_a_revoked_token_is_out_within_seconds(store: Store) -> None:
    clock = Clock()
    await store.access_tokens.add(hash_token(b"kept"), "keeper", Role.OPERATOR)
    directory = TokenDirectory((), store.access_tokens, clock=clock)
    found = await directory.find(b"kept")
    assert found is not None
    assert (found.subject, found.role) == ("keeper", "operator")
    assert await store.access_tokens.revoke("keeper") == 1
    clock.now = STORED_FOR_MS / 1000 - 0.001
    assert await directory.find(b"kept") is not None
    clock.now = STORED_FOR_MS / 1000
    assert await directory.find(b"kept") is None


async def test_all_tokens_of_the_database_cost_one_read_in_a_while(store: Store) -> None:
    clock = Clock()
    reads = 0

    class Counting:
        async def valid(self) -> list[AccessToken]:
            nonlocal reads
            reads += 1
            return []

    directory = TokenDirectory((), Counting(), clock=clock)  # type: ignore[arg-type] # the one method
    for token in (b"", b"a", b"b"):
        assert await directory.find(token) is None
    assert reads == 1
    clock.now = STORED_FOR_MS / 1000
    await directory.find(b"a")
    assert reads == 2


async def test_an_outage_leaves_known_tokens_in_force(headgate_database: str) -> None:
    wire = Wire(headgate_database)
    await wire.open()
    clock = Clock()
    async with Store(StoreSettings(dsn=wire.dsn)) as store:
        client = Client(create_app(store, ApiConfig(tokens=TOKENS)))
        # What only the database could know is not denied while it was never read.
        assert (await client.get("/meta", headers=bearer("kept"))).status == 503
        assert (await client.get("/meta", headers=bearer("viewer"))).status == 200
        assert (await client.get("/healthz")).status == 200
        await wire.mend()
        await store.access_tokens.add(hash_token(b"kept"), "keeper", Role.VIEWER)
        directory = TokenDirectory((), store.access_tokens, clock=clock)
        assert await directory.find(b"kept") is not None
        await wire.cut()
        clock.now += 60
        assert await directory.find(b"kept") is not None
        assert await directory.find(b"other") is None
    await wire.cut()


async def test_an_identity_may_have_several_tokens_which_are_revoked_together(
    store: Store,
) -> None:
    for token in (b"old", b"new"):
        await store.access_tokens.add(hash_token(token), "ada", Role.VIEWER)
    await store.access_tokens.add(hash_token(b"other"), "bob", Role.ADMIN)
    assert await store.access_tokens.revoke("ada") == 2
    assert [token.identity for token in await store.access_tokens.valid()] == ["bob"]
    assert len(await store.access_tokens.all()) == 3
    for nobody in ("ada", "nobody"):
        with pytest.raises(NotFound, match=f"access token of {nobody}"):
            await store.access_tokens.revoke(nobody)


# Tokens of a file


def test_tokens_are_read_line_by_line() -> None:
    text = (
        "# who may what\n\n"
        f"ci producer sha256:{hash_token(b'a').hex()}\n"
        f"  ada\tadmin  sha256:{hash_token(b'b').hex().upper()} ;"
        f"bob viewer sha256:{hash_token(b'c').hex()}"
    )
    assert [(each.identity, each.role, each.token_hash) for each in read_tokens(text)] == [
        ("ci", Role.PRODUCER, hash_token(b"a")),
        ("ada", Role.ADMIN, hash_token(b"b")),
        ("bob", Role.VIEWER, hash_token(b"c")),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# x\nsecret-token", "token 2 is not `<identity> <role> sha256:<hex>`"),
        ("ci producer secret-token", "token 1 is not"),
        ("ci producer sha256:secret-token", "token 1 has no hash of 64 hex digits"),
        ("ci producer sha256:abcd", "token 1 has no hash of 64 hex digits"),
        (f"ci producer sha256:{hash_token(b'').hex()}", "the hash of an empty token"),
        (f"ci root sha256:{hash_token(b'a').hex()}", "unknown role `root`"),
    ],
)
def test_a_line_that_is_none_is_refused_without_being_repeated(text: str, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint) as refusal:
        read_tokens(text)
    assert "secret" not in str(refusal.value)


# The authentication of a host application


class User(BaseUser):
    def __init__(self, name: str, **attributes: object) -> None:
        self.attributes = attributes
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def display_name(self) -> str:
        return "shown"

    @property
    def identity(self) -> str:
        return self._name


class Sessions(AuthenticationBackend):
    """Knows `ada` by her cookie and `simple` by a user of Starlette's own."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        match conn.cookies.get("session"):
            case None:
                return None
            case "ada":
                return AuthCredentials(["headgate:operator", "admin"]), User("ada", tenant="acme")
            case "simple":
                return AuthCredentials(["headgate:viewer"]), SimpleUser("simple")
            case _:
                raise AuthenticationError("bad session")


def cookie(session: str) -> list[Header]:
    return [("cookie", f"session={session}")]


async def test_a_backend_says_who_asks_and_what_they_may(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(authentication=Sessions())))
    assert (await client.get("/queues")).status == 401
    unknown = await client.get("/queues", headers=cookie("forged"))
    assert (unknown.status, unknown.json()) == (401, UNKNOWN)
    assert (await client.get("/queues", headers=cookie("ada"))).status == 200
    # A scope of the host that happens to be called like a role of ours is none.
    assert (await client.get("/audit", headers=cookie("ada"))).status == 403
    assert (await client.get("/queues", headers=bearer("viewer"))).status == 401
    paused = await client.request("POST", "/queues/q/pause", headers=cookie("ada"))
    assert paused.status == 204
    assert (await client.request("POST", "/queues/q/pause", headers=cookie("simple"))).status == 403


async def test_backend_and_tokens_may_stand_side_by_side(store: Store) -> None:
    config = ApiConfig(authentication=Sessions(), tokens=TOKENS)
    client = Client(create_app(store, config))
    assert (await client.get("/audit", headers=bearer("admin"))).status == 200
    assert (await client.get("/audit", headers=[*bearer("admin"), *cookie("ada")])).status == 403
    assert (
        await client.get("/queues", headers=[*bearer("viewer"), *cookie("forged")])
    ).status == 200


async def test_below_a_host_that_has_authenticated_already(store: Store) -> None:
    inner = create_app(store, ApiConfig(authentication=HostAuthentication()))
    outer = Starlette(
        routes=[Mount("/ops", inner)],
        middleware=[Middleware(AuthenticationMiddleware, backend=Sessions())],
    )
    client = Client(outer, prefix="/ops/api/v1")
    assert (await client.get("/queues")).status == 401
    assert (await client.get("/queues", headers=cookie("simple"))).status == 200
    assert (await client.request("POST", "/queues/q/pause", headers=cookie("ada"))).status == 204


async def test_the_identity_reaches_the_authorizer_and_the_trail(store: Store) -> None:
    seen: list[EnqueueContext] = []

    def authorizer(job: Envelope, context: EnqueueContext) -> bool:
        seen.append(context)
        return context.identity is not None and context.identity.attributes.get("tenant") == "acme"

    config = ApiConfig(authentication=Sessions(), tokens=TOKENS, authorizer=authorizer)
    client = Client(create_app(store, config))
    spoofed = [("x-identity", "ada"), ("x-headgate-identity", "ada")]
    answer = await client.request(
        "POST", "/jobs", json=PLAIN, headers=[*bearer("producer"), *spoofed]
    )
    assert (answer.status, answer.json()) == (403, {"error": "enqueue forbidden", "kind": "t.k"})
    assert (await client.request("POST", "/jobs", json=PLAIN, headers=cookie("ada"))).status == 201
    assert [(each.source, each.identity.subject) for each in seen if each.identity] == [
        ("http", "the producer"),
        ("http", "ada"),
    ]
    await client.request("POST", "/queues/q/pause", headers=cookie("ada"))
    (entry,) = (await store.audit.page()).entries
    assert (entry.identity, entry.role, entry.target) == ("ada", "operator", "q")


# Browsers


async def test_bc_84_another_site_cannot_use_a_browser(store: Store) -> None:
    client = Client(create_app(store))
    before = await contents(store)
    for headers in (
        [("origin", "https://evil.example")],
        [("origin", "null")],
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site"), ("origin", "http://sub.test")],
        [("origin", "http://test"), ("sec-fetch-site", "cross-site")],
    ):
        for media_type in ("text/plain", "application/json"):
            answer = await client.request(
                "POST",
                "/queues/q/pause",
                headers=[*headers, ("content-type", media_type)],
                body=b"{}",
                key=None,
            )
            expected = {"error": "cross-origin requests are not allowed"}
            assert (answer.status, answer.json()) == (403, expected), headers
    assert await contents(store) == before
    reading = await client.get("/queues", headers=[("origin", "https://evil.example")])
    assert reading.status == 200
    assert "access-control-allow-origin" not in reading.headers


async def test_the_own_site_can(store: Store) -> None:
    config = ApiConfig(allowed_origins=("https://console.example",))
    client = Client(create_app(store, config))
    for headers in (
        [("origin", "http://test")],
        [("origin", "HTTP://TEST")],
        [("sec-fetch-site", "same-origin"), ("origin", "https://public.example")],
        [("sec-fetch-site", "none")],
        [("sec-fetch-site", "cross-site"), ("origin", "https://console.example")],
    ):
        answer = await client.request("POST", "/queues/q/pause", headers=headers)
        assert answer.status == 204, headers
