"""Encrypted payloads: their form, who can open them, and what a task does with them."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Headgate, InvalidRequest, Keyring, PayloadEncryption, RegistrationError
from headgate.client.encryption import _seal
from headgate.client.options import Replace, Unique
from headgate.client.payloads import UndecodablePayload
from headgate.client.sealing import SealedJob
from headgate.client.task import Task
from headgate.model.envelope import Envelope
from headgate.model.identity import fingerprint
from headgate.model.job import Claim

OLD, NEW = b"\x07" * 32, b"\x08" * 32
JOB = SealedJob("job-1", "secret:task", 1)
KNOWN = bytes.fromhex(
    "484745430100026b31000102030405060708090a0b6cee99506e6cba3b12c6527e0b794110389ff91129360bd1446d"
)


def encryption(active: str = "k1", **keys: bytes) -> PayloadEncryption:
    return PayloadEncryption(Keyring(active, keys or {"k1": OLD}))


def claim_of(job: Envelope) -> Claim:
    rest: dict[str, Any] = dict.fromkeys(Claim.__struct_fields__)
    return Claim(
        **rest
        | {
            "job_id": job.id,
            "kind": job.kind,
            "schema_version": job.schema_version,
            "payload": job.payload,
        }
    )


def test_the_form_is_the_one_that_others_read() -> None:
    assert _seal(b"top secret", JOB, "k1", OLD, bytes(range(12))) == KNOWN
    assert encryption().open(KNOWN, JOB) == b"top secret"


@given(st.binary(max_size=200), st.text(min_size=1, max_size=20))
def test_what_is_sealed_can_be_opened(plaintext: bytes, key_id: str) -> None:
    try:
        key_id.encode()
    except UnicodeEncodeError:
        return
    sealer = PayloadEncryption(Keyring(key_id, {key_id: NEW}))
    assert sealer.open(sealer.seal(plaintext, JOB), JOB) == plaintext


@given(st.integers(0, len(KNOWN) - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed_wherever_it_is(position: int, change: int) -> None:
    changed = bytearray(KNOWN)
    changed[position] ^= change
    with pytest.raises(UndecodablePayload):
        encryption().open(bytes(changed), JOB)


@pytest.mark.parametrize("length", range(len(KNOWN)))
def test_what_is_cut_off_is_noticed(length: int) -> None:
    with pytest.raises(UndecodablePayload):
        encryption().open(KNOWN[:length], JOB)


@pytest.mark.parametrize(
    "other",
    [
        SealedJob("job-2", "secret:task", 1),
        SealedJob("job-1", "secret:tasks", 1),
        SealedJob("job-1", "secret:task", 2),
        SealedJob("job-1s", "ecret:task", 1),
    ],
)
def test_it_opens_for_its_own_job_alone(other: SealedJob) -> None:
    with pytest.raises(UndecodablePayload, match="does not open it for this job"):
        encryption().open(KNOWN, other)


def test_keys_change_and_the_old_one_is_kept_as_long_as_it_is_needed() -> None:
    both = encryption("k2", k1=OLD, k2=NEW)
    assert both.open(KNOWN, JOB) == b"top secret"
    sealed = both.seal(b"new", JOB)
    with pytest.raises(UndecodablePayload, match="key `k2` is not at hand"):
        encryption().open(sealed, JOB)
    assert encryption("k2", k2=NEW).open(sealed, JOB) == b"new"


def test_the_same_payload_never_looks_the_same() -> None:
    sealer = encryption()
    assert sealer.seal(b"x", JOB) != sealer.seal(b"x", JOB)


@pytest.mark.parametrize(
    ("active", "keys", "complaint"),
    [
        ("a", {"a": b"short"}, "key `a` must be 32 bytes"),
        ("a", {"": OLD, "a": OLD}, "key id must be 1-65535 bytes"),
        ("b", {"a": OLD}, "active key `b` is not in the keyring"),
    ],
)
def test_keyrings_that_cannot_be(active: str, keys: dict[str, bytes], complaint: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Keyring(active, keys)
    assert refused.value.message == complaint


def test_a_keyring_does_not_show_its_keys() -> None:
    assert repr(Keyring("k1", {"k1": OLD})) == "<Keyring of 1, active k1>"


def test_a_key_store_that_is_away_does_not_speak_through_the_history() -> None:
    class Away:
        def active_key(self) -> tuple[str, bytes]:
            return "k1", OLD

        def key(self, key_id: str) -> bytes:
            raise ConnectionError("10.0.0.7 refused")

    with pytest.raises(UndecodablePayload, match="key `k1` is not at hand"):
        PayloadEncryption(Away()).open(KNOWN, JOB)


def secret_task(sealer: PayloadEncryption) -> Task[dict[str, int]]:
    app = Headgate()

    @app.task("secret:task", aliases=["hidden"], encryption=sealer)
    async def handler(payload: dict[str, int]) -> None: ...

    return handler


def test_a_task_seals_what_it_enqueues_and_opens_what_it_gets() -> None:
    task = secret_task(encryption())
    job = task.job({"user": 17})
    assert b"17" not in job.payload
    assert job.fingerprint == fingerprint("secret:task", b'{"user":17}')
    assert task.payload_of(claim_of(job)) == {"user": 17}
    assert task.job({"user": 17}, id="mine").id == "mine"
    assert task.job({"user": 17}, fingerprint="own").fingerprint == "own"
    with pytest.raises(UndecodablePayload):
        task.payload_of(claim_of(Envelope(id="x", kind="secret:task", payload=b'{"user":17}')))


def test_jobs_from_before_its_encryption_are_read_where_that_is_asked_for() -> None:
    task = secret_task(PayloadEncryption(Keyring("k1", {"k1": OLD}), accept_plain=True))
    plain = Envelope(id="x", kind="hidden", payload=b'{"user":17}')
    assert task.payload_of(claim_of(plain)) == {"user": 17}
    assert task.payload_of(claim_of(task.job({"user": 18}))) == {"user": 18}


def test_a_sealed_payload_is_for_one_job() -> None:
    task = secret_task(encryption())
    for unique in (
        Unique("k", replace=Replace.PAYLOAD),
        Unique("k", debounce=timedelta(seconds=1)),
    ):
        with pytest.raises(InvalidRequest, match="cannot replace another one"):
            task.job({"user": 1}, unique=unique)
    assert task.job({"user": 1}, unique=Unique("k", replace=Replace.PRIORITY)).unique_key == b"k"
    app = Headgate()
    with pytest.raises(RegistrationError, match="for one job, not for many"):

        @app.periodic(every_ms=1_000)
        @app.task("tick", encryption=encryption())
        async def tick() -> None: ...
