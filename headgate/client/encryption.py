"""Payloads that the database cannot read: AES-256-GCM, with keys that may change.

A sealed payload is `HGEC`, a version byte, the length of the key id in two bytes, the key id, a
random nonce of 12 bytes, and the ciphertext with its tag. Job id, kind and schema version are
authenticated with it, so that it cannot be moved to another job. Tags, headers, results, output,
progress and errors stay as they are.
"""

import os
from collections.abc import Mapping
from typing import Final, Protocol

from headgate.client.payloads import UndecodablePayload
from headgate.client.sealing import SealedJob
from headgate.model.access import Identity
from headgate.model.errors import InvalidRequest
from headgate.model.job import Job

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "encryption needs an extra: install headgate-queue[encryption]", name=error.name
    ) from error

MAGIC: Final = b"HGEC\x01"
KEY_BYTES: Final = 32
MAX_KEY_ID_BYTES: Final = 65_535
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16


class KeyProvider(Protocol):
    """Where keys come from. It is asked for each payload: keep what is costly to fetch."""

    def active_key(self) -> tuple[str, bytes]:
        """The id and the 32 bytes of the key that seals from now on."""

    def key(self, key_id: str) -> bytes:
        """The 32 bytes of a key that sealed once. Raises `LookupError` for one that is unknown."""


class Keyring:
    """Keys by their ids, of which one is active.

    To change keys, add the new one everywhere, then make it active, and take the old one out when
    no stored job needs it any more.
    """

    def __init__(self, active: str, keys: Mapping[str, bytes]) -> None:
        """Raises `InvalidRequest` for a key that is not 32 bytes long, for an id that is empty or
        longer than 65,535 bytes, and when the active one is not among them.
        """
        for key_id, key in keys.items():
            if not 1 <= len(key_id.encode()) <= MAX_KEY_ID_BYTES:
                raise InvalidRequest(f"key id must be 1-{MAX_KEY_ID_BYTES} bytes")
            if len(key) != KEY_BYTES:
                raise InvalidRequest(f"key `{key_id}` must be {KEY_BYTES} bytes")
        if active not in keys:
            raise InvalidRequest(f"active key `{active}` is not in the keyring")
        self._active = active
        self._keys = dict(keys)

    def active_key(self) -> tuple[str, bytes]:
        return self._active, self._keys[self._active]

    def key(self, key_id: str) -> bytes:
        return self._keys[key_id]

    def __repr__(self) -> str:
        return f"<Keyring of {len(self._keys)}, active {self._active}>"


class PayloadEncryption:
    """Seals and opens the payloads of tasks that are registered with it.

    encryption = PayloadEncryption(Keyring("2026", {"2026": key}))

    @app.task("invoice:send", encryption=encryption)
    async def send(invoice: Invoice) -> None: ...
    """

    def __init__(self, keys: KeyProvider, *, accept_plain: bool = False) -> None:
        """`accept_plain` also takes payloads that were never sealed: while a task that had none
        gets its encryption, until the last job from before is gone.
        """
        self._keys = keys
        self._accept_plain = accept_plain

    def seal(self, plaintext: bytes, job: SealedJob) -> bytes:
        key_id, key = self._keys.active_key()
        return _seal(plaintext, job, key_id, key, os.urandom(_NONCE_BYTES))

    def open(self, stored: bytes, job: SealedJob) -> bytes:
        if not stored.startswith(MAGIC):
            if self._accept_plain:
                return stored
            raise UndecodablePayload("payload: not encrypted, or in another form")
        start = len(MAGIC) + 2
        body = start + int.from_bytes(stored[len(MAGIC) : start], "big")
        if len(stored) < body + _NONCE_BYTES + _TAG_BYTES:
            raise UndecodablePayload("payload: the encrypted form is cut off")
        try:
            key_id = stored[start:body].decode()
        except UnicodeDecodeError:
            raise UndecodablePayload("payload: the key id is no text") from None
        try:
            key = self._keys.key(key_id)
        except Exception:
            # Whatever keeps the key away: what it would say does not belong into a job's history.
            raise UndecodablePayload(f"payload: key `{key_id}` is not at hand") from None
        nonce = stored[body : body + _NONCE_BYTES]
        try:
            return AESGCM(key).decrypt(nonce, stored[body + _NONCE_BYTES :], _bound_to(job))
        except (InvalidTag, ValueError):
            raise UndecodablePayload(
                f"payload: key `{key_id}` does not open it for this job"
            ) from None

    async def reveal(self, job: Job, identity: Identity | None) -> bytes:
        """The payload of a job for the control API: a revealer that lets every admin see it."""
        if isinstance(job.payload, bytes) and job.payload.startswith(MAGIC):
            return self.open(job.payload, SealedJob(job.id, job.kind, job.schema_version))
        raise UndecodablePayload("payload: not encrypted")


def _seal(plaintext: bytes, job: SealedJob, key_id: str, key: bytes, nonce: bytes) -> bytes:
    name = key_id.encode()
    head = MAGIC + len(name).to_bytes(2, "big") + name + nonce
    return head + AESGCM(key).encrypt(nonce, plaintext, _bound_to(job))


def _bound_to(job: SealedJob) -> bytes:
    """The bytes that are authenticated beside the payload."""
    texts = (job.job_id.encode(), job.kind.encode())
    sized = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
    return sized + job.schema_version.to_bytes(4, "big")
