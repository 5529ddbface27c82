"""Lines of JSON: what is a job, what is not and why, and how they are cut into parts."""

import io
from typing import Any

import msgspec
import pytest

from headgate.cli.job_lines import MAX_LINE_BYTES, JobLine, Part, parts
from headgate.model.envelope import Envelope


def read(*lines: bytes, after: int = 0) -> list[Part]:
    return list(parts(io.BytesIO(b"\n".join(lines)), after=after))


def only(line: bytes) -> Envelope:
    [part] = read(line)
    assert part.bad == []
    [job] = part.jobs
    return job.envelope


def test_a_line_says_all_that_a_producer_may_say_of_a_job() -> None:
    said: dict[str, Any] = {
        "id": "one",
        "kind": "mail",
        "schema_version": 2,
        "queue": "q",
        "partition_key": "p",
        "rate_class": "r",
        "weight": 3,
        "priority": -4,
        "max_attempts": 5,
        "delay_ms": 6,
        "timeout_ms": 7,
        "deadline_ms": 8,
        "retention_ms": 9,
        "unique_window_ms": 10,
        "unique_exclude_kind": True,
        "headers": {"h": "é"},
        "tags": ["a", "b"],
        "sticky_worker": "w",
    }
    given = said | {"payload": "AAE=", "unique_key": "a2V5"}
    envelope = only(msgspec.json.encode(given))
    assert (envelope.payload, envelope.unique_key) == (b"\0\x01", b"key")
    assert {name: getattr(envelope, name) for name in said} == said | {"tags": ("a", "b")}
    elsewhere = {"scheduled_at_ms", "unique_replace", "unique_debounce_ms", "pending"}
    assert set(JobLine.__struct_fields__) == set(given) | elsewhere


@pytest.mark.parametrize("payload", [b'{"a":  [1.50, "\\u00e9"]}', b"[]", b'{"u": "\xc3\xa9"}'])
def test_a_payload_of_json_is_kept_byte_for_byte(payload: bytes) -> None:
    assert only(b'{"kind": "mail", "payload": ' + payload + b"}").payload == payload


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "bad json"),
        (b"\xff", "bad json"),
        (b'{"kind": "m", "payload": {"a": "\xff"}}', "bad json"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"payload": {}}', "missing field `kind`"),
        (b'{"kind": "m"}', "missing field `payload`"),
        (b'{"kind": "m", "payload": {}, "prioritty": 1}', "unknown field `prioritty`"),
        (b'{"kind": "m", "payload": {}, "priority": "1"}', "priority: Expected `int | null`"),
        (b'{"kind": "m", "payload": {}, "tags": ["a", 1]}', "tags[1]: Expected `str`, got `int`"),
        (b'{"kind": "m", "payload": "no base64"}', "payload must be base64"),
        (b'{"kind": "m", "payload": null}', "payload must be base64, or a JSON object or array"),
        (b'{"kind": "m", "payload": {}, "weight": 0}', "weight must be >= 1"),
        (b'{"kind": "m", "payload": {}, "queue": "a\\u0000"}', "queue must not contain NUL"),
        (b'{"kind": "m m", "payload": {}}', "invalid kind"),
        (b'{"kind": "m", "payload": {}, "delay_ms": -1}', "delay_ms must be >= 0"),
        (b" " * MAX_LINE_BYTES + b"x", f"line exceeds {MAX_LINE_BYTES} bytes"),
    ],
)
def test_what_is_no_job_is_told_by_its_line_and_field(line: bytes, reason: str) -> None:
    good = b'{"kind": "mail", "payload": {}}'
    [part] = read(good, line, good)
    assert [job.position for job in part.jobs] == [1, 3]
    [bad] = part.bad
    assert bad.position == 2
    assert str(bad).startswith(f"line 2: {reason}")


def test_empty_lines_are_counted_and_skipped() -> None:
    good = b'{"kind": "mail", "payload": {}}'
    [part] = read(b"", good + b"\r", b"  ", good, b"")
    assert [job.position for job in part.jobs] == [2, 4]
    assert read(b"", b"") == []


def test_it_begins_behind_a_line() -> None:
    good = b'{"kind": "mail", "payload": {}}'
    [part] = read(b"broken", good, good, after=2)
    assert ([job.position for job in part.jobs], part.bad) == ([3], [])


def test_parts_hold_no_more_than_an_enqueue_takes() -> None:
    good = b'{"kind": "mail", "payload": {}}'
    sizes = [(len(part.jobs), len(part.bad)) for part in read(*[good] * 1_500, *[b"{"] * 1_600)]
    assert sizes == [(1_000, 0), (500, 1_000), (0, 600)]
    large = b'{"kind": "mail", "payload": {"a": "' + b"x" * 1_000_000 + b'"}}'
    assert [len(part.jobs) for part in read(*[large] * 20)] == [16, 4]


def test_a_line_that_may_change_another_job_comes_alone() -> None:
    good = b'{"kind": "mail", "payload": {}}'
    replacing = b'{"kind": "mail", "payload": {}, "unique_key": "aw==", "unique_replace": 1}'
    found = read(good, good, replacing, replacing, good)
    assert [len(part.jobs) for part in found] == [2, 1, 1, 1]
