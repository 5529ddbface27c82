"""What a worker and its handler processes say to each other over a pipe.

A message is a msgpack document after its length in four bytes. The worker sends one `Call` and
waits for its `Answer`; in between the handler may ask for what needs the worker's connection.
"""

import struct
from typing import Any, Final, TypeAlias

import msgspec

from headgate.model.artifacts import Steps
from headgate.model.job import Acknowledgement, Claim, Lease
from headgate.worker.hold import Holding
from headgate.worker.verdicts import Verdict

LENGTH: Final = struct.Struct(">I")


class Call(msgspec.Struct, tag=True):
    """Run the handler of that task on this job."""

    module: str
    name: str
    claim: Claim
    worker_id: str
    schema: str


class Replied(msgspec.Struct, tag=True):
    """The answer to an `Asked`: a value, or an error by its kind and text."""

    value: Any = None
    refused: str | None = None
    text: str = ""


class Checkpointed(msgspec.Struct, tag=True):
    lease: Lease
    steps: Steps


class Progressed(msgspec.Struct, tag=True):
    lease: Lease
    current: int
    total: int
    message: str | None


class PutOut(msgspec.Struct, tag=True):
    lease: Lease
    schema_version: int
    data: bytes


class Renewed(msgspec.Struct, tag=True):
    lease: Lease
    lease_ms: int


class Acknowledged(msgspec.Struct, tag=True):
    report: Acknowledgement


class Happened(msgspec.Struct, tag=True):
    key: str


Question: TypeAlias = Checkpointed | Progressed | PutOut | Renewed | Acknowledged | Happened


class Asked(msgspec.Struct, tag=True):
    """The handler wants something done under its lease, and waits for `Replied`."""

    question: Question


class Left(msgspec.Struct, tag=True):
    """What the handler has of its lease has changed."""

    state: Holding


class Lengthened(msgspec.Struct, tag=True):
    """The handler wants renewals to last that long."""

    by_ms: int


class Answer(msgspec.Struct, tag=True):
    """The handler has ended."""

    verdict: Verdict
    logs: tuple[str, ...]
    actual_weight: int | None


FromWorker: TypeAlias = Call | Replied
FromChild: TypeAlias = Asked | Left | Lengthened | Answer

encode: Final = msgspec.msgpack.Encoder().encode
decode_from_worker: Final = msgspec.msgpack.Decoder(FromWorker).decode
decode_from_child: Final = msgspec.msgpack.Decoder(FromChild).decode


def framed(message: FromWorker | FromChild) -> bytes:
    """The message as it goes through the pipe."""
    data = encode(message)
    return LENGTH.pack(len(data)) + data
