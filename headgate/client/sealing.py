"""What a payload codec of an application needs to know to hide payloads, whatever the cipher."""

from typing import Protocol

import msgspec


class SealedJob(msgspec.Struct, frozen=True):
    """The job that a sealed payload is for; it opens for no other."""

    job_id: str
    kind: str
    schema_version: int


class PayloadCipher(Protocol):
    """Seals payloads on their way to the store and opens them on their way to the handler."""

    def seal(self, plaintext: bytes, job: SealedJob) -> bytes:
        """The payload as it is stored."""

    def open(self, stored: bytes, job: SealedJob) -> bytes:
        """The payload as it was. Raises `UndecodablePayload`, whatever stood in the way."""
