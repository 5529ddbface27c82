"""Opening encrypted payloads over the control API."""

import base64

import pytest

from headgate import ApiConfig, Headgate, Identity, Keyring, PayloadEncryption, create_app
from headgate.model.access import AccessToken, Role, hash_token
from headgate.model.job import Job
from headgate.store.store import Store
from tests.contract.client import Answer, Client
from tests.contract.jobs import enqueue

ENCRYPTION = PayloadEncryption(Keyring("k1", {"k1": bytes(32)}))
TARGET = "/jobs/sealed/payload/reveal"


@pytest.fixture(autouse=True)
async def sealed(store: Store) -> None:
    app = Headgate()
    app.bind(store)

    @app.task("secret", encryption=ENCRYPTION)
    async def secret(payload: str) -> None: ...

    await secret.enqueue("for few eyes", id="sealed")


def assert_not_kept(answer: Answer) -> None:
    assert answer.headers["cache-control"] == "no-store"


async def test_an_admin_sees_what_was_sealed_and_leaves_a_trace(store: Store) -> None:
    tokens = tuple(AccessToken(token_hash=hash_token(r.encode()), identity=r, role=r) for r in Role)
    client = Client(create_app(store, ApiConfig(revealer=ENCRYPTION.reveal, tokens=tokens)))
    for role in (Role.VIEWER, Role.PRODUCER, Role.OPERATOR):
        refused = await client.get(TARGET, headers=[("authorization", f"Bearer {role}")])
        assert (refused.status, refused.json()) == (403, {"error": "forbidden"})
        told = await client.get("/session", headers=[("authorization", f"Bearer {role}")])
        assert not told.json()["reveals"]
    admin = [("authorization", "Bearer admin")]
    assert (await client.get("/session", headers=admin)).json()["reveals"]
    answer = await client.get(TARGET, headers=admin)
    assert_not_kept(answer)
    plaintext = base64.b64encode(b'"for few eyes"').decode()
    assert (answer.status, answer.json()) == (200, {"plaintext": plaintext})
    (entry,) = (await store.audit.page()).entries
    assert (entry.identity, entry.method, entry.target, entry.status) == (
        "admin",
        "GET",
        "sealed",
        200,
    )
    assert entry.route == "/api/v1/jobs/{id}/payload/reveal"


@pytest.mark.parametrize(
    ("failure", "status", "error"),
    [
        (PermissionError("not you"), 403, "payload reveal forbidden"),
        (ValueError("what is this"), 422, "payload cannot be revealed"),
        (ConnectionError("10.0.0.7"), 503, "payload reveal unavailable"),
        (TimeoutError(), 503, "payload reveal unavailable"),
        (RuntimeError("the secret is 17"), 500, "payload reveal failed"),
    ],
)
async def test_what_stands_in_the_way_is_told_and_no_more(
    store: Store, failure: Exception, status: int, error: str
) -> None:
    async def fails(job: Job, identity: Identity | None) -> bytes:
        raise failure

    answer = await Client(create_app(store, ApiConfig(revealer=fails))).get(TARGET)
    assert (answer.status, answer.json()) == (status, {"error": error})
    assert_not_kept(answer)
    assert (await store.audit.page()).entries == []


async def test_what_is_not_sealed_or_not_there_cannot_be_revealed(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(revealer=ENCRYPTION.reveal)))
    await enqueue(client, "plain")
    for job_id, status, error in (
        ("plain", 422, "payload cannot be revealed"),
        ("nobody", 404, "no such job"),
    ):
        answer = await client.get(f"/jobs/{job_id}/payload/reveal")
        assert (answer.status, answer.json()) == (status, {"error": error})
        assert_not_kept(answer)


async def test_an_instance_may_have_no_revealer_or_keep_payloads_back(store: Store) -> None:
    answer = await Client(create_app(store)).get(TARGET)
    assert (answer.status, answer.json()) == (404, {"error": "payload reveal is not available"})
    assert_not_kept(answer)
    config = ApiConfig(revealer=ENCRYPTION.reveal, payloads=False)
    answer = await Client(create_app(store, config)).get(TARGET)
    assert (answer.status, answer.json()) == (403, {"error": "payload reveal forbidden"})


async def test_a_read_only_instance_writes_nothing(store: Store) -> None:
    config = ApiConfig(revealer=ENCRYPTION.reveal, read_only=True)
    assert (await Client(create_app(store, config)).get(TARGET)).status == 200
    assert (await store.audit.page()).entries == []
