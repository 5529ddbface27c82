"""Jobs as lines of JSON: reading a file of any size part by part, and judging each line."""

import re
from collections.abc import Iterator
from typing import IO, Final

import msgspec

from headgate.api.base64 import decode_base64
from headgate.api.enqueue import EnqueueBody
from headgate.api.wire import Milliseconds
from headgate.model.envelope import Envelope, prepare
from headgate.model.errors import HeadgateError, InvalidRequest
from headgate.model.limits import MAX_BATCH_BYTES, MAX_BATCH_JOBS
from headgate.store.importing import Listed

MAX_LINE_BYTES: Final = 2_097_152

_MISSING: Final = re.compile(r"Object missing required field (`[^`]+`)")
_UNKNOWN: Final = re.compile(r"Object contains unknown field (`[^`]+`)")
_PLACE: Final = re.compile(r"(.*) - at `\$\.(.*)`")


class JobLine(EnqueueBody, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A job as `POST /jobs` takes it, and what else an enqueue knows.

    The payload is base64, or a JSON object or array that is kept byte for byte.
    """

    # Another type in the same place: the decoder hands over what stands there, unread.
    payload: msgspec.Raw  # type: ignore[assignment]
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    delay_ms: Milliseconds = 0
    timeout_ms: Milliseconds = 0
    deadline_ms: Milliseconds = 0

    def payload_bytes(self) -> bytes:
        raw = bytes(self.payload)
        if raw[:1] in (b"{", b"["):
            return raw
        if raw[:1] != b'"':
            raise InvalidRequest("payload must be base64, or a JSON object or array")
        return decode_base64("payload", msgspec.json.decode(raw, type=str))

    def envelope(self) -> Envelope:
        envelope = super().envelope()
        envelope.headers = self.headers
        envelope.delay_ms = self.delay_ms
        envelope.timeout_ms = self.timeout_ms
        envelope.deadline_ms = self.deadline_ms
        return envelope


_decoder: Final = msgspec.json.Decoder(JobLine)


class BadLine(HeadgateError):
    """A line that is no job; the text says where it stands and which field is wrong."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"line {position}: {reason}")
        self.position = position


class Part(msgspec.Struct):
    """Some lines of a file: the jobs in them, and the lines that are none."""

    jobs: list[Listed] = []
    bad: list[BadLine] = []

    @property
    def is_full(self) -> bool:
        return max(len(self.jobs), len(self.bad)) >= MAX_BATCH_JOBS

    @property
    def amends(self) -> bool:
        """Whether it holds a job that may change another one; that one comes alone."""
        return bool(self.jobs) and _amends(self.jobs[0].envelope)


def parts(file: IO[bytes], *, after: int = 0) -> Iterator[Part]:
    """The lines behind the line `after`, in parts that an enqueue takes; empty lines are none."""
    part = Part()
    size = 0
    for position, line in _lines(file):
        if position <= after or not line.strip():
            continue
        size += len(line)
        try:
            envelope = _judged(line)
        except InvalidRequest as error:
            part.bad.append(BadLine(position, error.message))
        else:
            alone = part.amends or (bool(part.jobs) and _amends(envelope))
            if alone or size > MAX_BATCH_BYTES:
                yield part
                part, size = Part(), len(line)
            part.jobs.append(Listed(position, envelope))
        if part.is_full:
            yield part
            part, size = Part(), 0
    if part.jobs or part.bad:
        yield part


def _amends(envelope: Envelope) -> bool:
    return bool(envelope.unique_replace or envelope.unique_debounce_ms)


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each line with its number, from 1; of one that is too long as much as shows that."""
    position = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        position += 1
        yield position, line
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES + 1)


def _judged(line: bytes) -> Envelope:
    """The job of a line. Raises `InvalidRequest` naming the field."""
    if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
        raise InvalidRequest(f"line exceeds {MAX_LINE_BYTES} bytes")
    try:
        # The decoder does not look into the strings of a payload that it hands over unread.
        if not line.isascii():
            line.decode()
        envelope = _decoder.decode(line).envelope()
    except msgspec.ValidationError as error:
        raise InvalidRequest(_named(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidRequest("bad json") from None
    prepare([envelope])
    return envelope


def _named(text: str) -> str:
    """What the decoder has to say, beginning with the field."""
    if missing := _MISSING.match(text):
        return f"missing field {missing[1]}"
    if unknown := _UNKNOWN.match(text):
        return f"unknown field {unknown[1]}"
    if placed := _PLACE.fullmatch(text):
        return f"{placed[2]}: {placed[1]}"
    return text
