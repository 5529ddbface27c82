"""What may enter, in which order it is judged, and what it says when it may not."""

from typing import Any

import msgspec
import pytest

from headgate.model.envelope import RESERVED_IDS, Envelope, prepare
from headgate.model.errors import InvalidRequest
from headgate.model.identity import fingerprint
from headgate.model.kinds import check_kind
from headgate.model.limits import MAX_MS, MAX_SCHEDULE_ID_BYTES, check_name

MEBIBYTE = 1_048_576


def refusal(*envelopes: Envelope) -> str:
    with pytest.raises(InvalidRequest) as refused:
        prepare(envelopes)
    return refused.value.message


def accepted(**fields: Any) -> Envelope:
    (prepared,) = prepare([Envelope(**{"kind": "mail", **fields})])
    return prepared


def refused(**fields: Any) -> str:
    return refusal(Envelope(**{"kind": "mail", **fields}))


# Each pair is the text that the envelope below earns, and the change that gets it past that text.
# Whoever reorders two checks sees this walk stop.
WALK: list[tuple[str, dict[str, Any]]] = [
    ("envelope id is reserved: bulk", {"id": "i" * 256}),
    (
        "invalid kind `no kind`: 1-128 characters, first [A-Za-z0-9_],"
        " rest [A-Za-z0-9_] or one of -[]<>/.:+",
        {"kind": "mail"},
    ),
    ("envelope id must be at most 255 bytes", {"id": ""}),
    ("queue must be at most 255 bytes", {"queue": ""}),
    ("partition_key must be at most 255 bytes", {"partition_key": ""}),
    ("rate_class must be at most 255 bytes", {"rate_class": ""}),
    ("fingerprint must be at most 255 bytes", {"fingerprint": ""}),
    ("periodic_schedule_id must be at most 255 bytes", {"periodic_schedule_id": "s"}),
    ("payload must be at most 1048576 bytes", {"payload": b""}),
    ("unique_key must be at most 1024 bytes", {"unique_key": None}),
    ("headers must contain at most 128 values", {"headers": {"a": "v" * 65_536}}),
    ("headers must total at most 65536 bytes", {"headers": {}}),
    ("schema_version is too large", {"schema_version": -1}),
    ("schema_version must be >= 0", {"schema_version": 2**31 - 1}),
    ("weight is too large", {"weight": -1}),
    ("weight must be >= 0", {"weight": 2**31 - 1}),
    ("priority is too large", {"priority": -(2**31) - 1}),
    ("priority must be >= -2147483648", {"priority": -(2**31)}),
    ("max_attempts is too large", {"max_attempts": -1}),
    ("max_attempts must be >= 0", {"max_attempts": 2**31 - 1}),
    ("scheduled_at_ms must be >= 0", {"scheduled_at_ms": MAX_MS + 1}),
    ("scheduled_at_ms is too large", {"scheduled_at_ms": MAX_MS}),
    ("timeout_ms must be >= 0", {"timeout_ms": MAX_MS + 1}),
    ("timeout_ms is too large", {"timeout_ms": MAX_MS}),
    ("deadline_ms must be >= 0", {"deadline_ms": 2**70}),
    ("deadline_ms is too large", {"deadline_ms": MAX_MS}),
    ("retention_ms must be >= 0", {"retention_ms": MAX_MS + 1}),
    ("retention_ms is too large", {"retention_ms": MAX_MS}),
    ("unique_window_ms must be >= 0", {"unique_window_ms": MAX_MS + 1}),
    ("unique_window_ms is too large", {"unique_window_ms": 0}),
    ("unique_debounce_ms must be >= 0", {"unique_debounce_ms": MAX_MS + 1}),
    ("unique_debounce_ms is too large", {"unique_debounce_ms": 1}),
    ("unique_debounce_ms requires lifecycle unique_key", {"unique_key": b""}),
    ("unique_debounce_ms requires lifecycle unique_key", {"unique_debounce_ms": 0}),
    ("unique_replace contains unknown fields", {"unique_replace": -1}),
    ("unique_replace contains unknown fields", {"unique_replace": 15}),
    ("unique_replace requires unique_key", {"unique_replace": 0}),
    ("tags must contain at most 32 values", {"tags": ("a", "a", "")}),
    ("each tag must be 1-64 ASCII bytes", {"tags": ("a", "a", "b" * 65)}),
    ("each tag must be 1-64 ASCII bytes", {"tags": ("a", "a", "é")}),
    ("each tag must be 1-64 ASCII bytes", {"tags": ("a", "a", "b\0")}),
    ("tags must not contain NUL", {"tags": ("a", "a")}),
    ("tags must not contain duplicates", {"tags": ("b", "a")}),
    ("pending jobs cannot also set scheduled_at_ms", {"scheduled_at_ms": 0}),
    ("sticky_worker must be at most 255 ASCII bytes", {"sticky_worker": "é"}),
    ("sticky_worker must be at most 255 ASCII bytes", {"sticky_worker": "w" * 255}),
    (
        "periodic_schedule_id and positive periodic_tick_ms must be set together",
        {"periodic_tick_ms": -1},
    ),
    (
        "periodic_schedule_id and positive periodic_tick_ms must be set together",
        {"periodic_tick_ms": 1},
    ),
]

ALL_WRONG: dict[str, Any] = {
    "id": "bulk",
    "kind": "no kind",
    "schema_version": 2**31,
    "payload": b"x" * (MEBIBYTE + 1),
    "queue": "q" * 256,
    "partition_key": "é" * 128,
    "rate_class": "r" * 256,
    "weight": 2**31,
    "fingerprint": "f" * 256,
    "priority": 2**31,
    "max_attempts": 2**31,
    "scheduled_at_ms": -1,
    "timeout_ms": -1,
    "deadline_ms": -1,
    "retention_ms": -1,
    "unique_key": b"k" * 1_025,
    "unique_window_ms": -1,
    "unique_replace": 16,
    "unique_debounce_ms": -1,
    "periodic_schedule_id": "s" * 256,
    "periodic_tick_ms": 0,
    "headers": {f"h{n}": "" for n in range(129)},
    "tags": tuple(f"t{n}" for n in range(33)),
    "pending": True,
    "sticky_worker": "w" * 256,
}


def test_the_order_and_the_texts_of_the_checks() -> None:
    fields = dict(ALL_WRONG)
    for text, change in WALK:
        assert refused(**fields) == text
        fields.update(change)
    assert accepted(**fields).sticky_worker == "w" * 255


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("schema_version", 2**31 - 1),
        ("weight", 2**31 - 1),
        ("priority", 2**31 - 1),
        ("max_attempts", 2**31 - 1),
        ("scheduled_at_ms", MAX_MS),
        ("timeout_ms", MAX_MS),
        ("deadline_ms", MAX_MS),
        ("retention_ms", MAX_MS),
        ("unique_window_ms", MAX_MS),
    ],
)
def test_a_number_alone_is_bounded(field: str, most: int) -> None:
    assert getattr(accepted(**{field: most}), field) == most
    for beyond in (most + 1, 2**47, 2**48, 2**63):
        if beyond > most:
            assert refused(**{field: beyond}) == f"{field} is too large"
    if field != "priority":
        assert refused(**{field: -1}) == f"{field} must be >= 0"


def test_a_tick_alone_is_bounded() -> None:
    assert accepted(periodic_schedule_id="s", periodic_tick_ms=MAX_MS).periodic_tick_ms == MAX_MS
    beyond = refused(periodic_schedule_id="s", periodic_tick_ms=MAX_MS + 1)
    assert beyond == "periodic_tick_ms is too large"


TEXT_FIELDS = ["queue", "partition_key", "rate_class", "fingerprint", "sticky_worker"]


@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_nul_and_lone_surrogates_are_refused_by_field_name(field: str) -> None:
    assert refused(**{field: "a\0"}) == f"{field} must not contain NUL"
    assert refused(**{field: "\ud800"}) == f"{field} must not contain lone surrogates"
    assert getattr(accepted(**{field: "a\x01\x7f"}), field) == "a\x01\x7f"


def test_nul_and_lone_surrogates_elsewhere() -> None:
    assert refused(id="\0") == "envelope id must not contain NUL"
    assert refused(id="\udfff") == "envelope id must not contain lone surrogates"
    tick = {"periodic_tick_ms": 1}
    assert refused(periodic_schedule_id="\0", **tick) == "periodic_schedule_id must not contain NUL"
    assert refused(headers={"\0": ""}) == "headers must not contain NUL"
    assert refused(headers={"a": "b\0"}) == "headers must not contain NUL"
    assert refused(headers={"\ud800": ""}) == "headers must not contain lone surrogates"
    assert refused(headers={"a": "\udc00"}) == "headers must not contain lone surrogates"
    assert refused(kind="a\0").startswith("invalid kind `a\0`: ")
    assert refused(kind="a\ud800").startswith("invalid kind `a?`: ")
    assert accepted(payload=b"\0", unique_key=b"\0").payload == b"\0"


def test_headers_with_half_pairs_that_meet_are_not_taken_for_a_character() -> None:
    assert refused(headers={"a": "\ud83d", "b": "\ude00"}).startswith("headers must not contain")


@pytest.mark.parametrize("job_id", sorted(RESERVED_IDS))
def test_reserved_ids(job_id: str) -> None:
    assert refused(id=job_id) == f"envelope id is reserved: {job_id}"
    assert accepted(id=job_id.upper()).id == job_id.upper()
    assert accepted(id=job_id + "x").id == job_id + "x"


def test_names_are_counted_in_bytes() -> None:
    assert accepted(queue="é" * 127).queue == "é" * 127
    assert refused(queue="é" * 128) == "queue must be at most 255 bytes"
    assert accepted(id="i" * 255, queue="q" * 255, partition_key="p" * 255).id == "i" * 255


def test_headers_are_counted_in_bytes() -> None:
    assert accepted(headers={"é": "é" * 32_767})
    assert refused(headers={"éa": "é" * 32_767}) == "headers must total at most 65536 bytes"
    assert accepted(headers={f"h{n}": "" for n in range(128)})


@pytest.mark.parametrize("kind", ["a", "0", "_", "A-[]<>/.:+z", "x" * 128, "email:welcome"])
def test_kinds_that_pass(kind: str) -> None:
    check_kind(kind)
    assert accepted(kind=kind).kind == kind


@pytest.mark.parametrize("kind", ["", "-lead", "a b", "résumé:parse", "a\n", "x" * 129, "a,b", "٣"])
def test_kinds_that_fail(kind: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidRequest) as refused_kind:
            check_kind(kind)
        assert refused_kind.value.message == (
            f"invalid kind `{kind}`: 1-128 characters, first [A-Za-z0-9_],"
            " rest [A-Za-z0-9_] or one of -[]<>/.:+"
        )


def test_defaults() -> None:
    zero = Envelope(kind="mail", queue="", schema_version=0, weight=0, max_attempts=0)
    (prepared,) = prepare([zero])
    assert (prepared.queue, prepared.schema_version, prepared.weight) == ("default", 1, 1)
    assert prepared.max_attempts == 25
    assert prepared.fingerprint == fingerprint("mail", b"")
    assert prepared.id.startswith("hg")
    assert msgspec.structs.replace(prepared, id="", fingerprint="") == Envelope(kind="mail")
    assert (zero.id, zero.queue, zero.fingerprint) == ("", "", "")


def test_what_is_given_is_kept() -> None:
    given_fields: dict[str, Any] = {
        "id": "i",
        "fingerprint": "f",
        "queue": "q",
        "priority": -3,
        "headers": {"a": "b"},
        "unique_key": b"",
        "unique_window_ms": 500,
    }
    prepared = accepted(**given_fields)
    assert {name: getattr(prepared, name) for name in given_fields} == given_fields


def test_tags_are_sorted_and_the_original_stays() -> None:
    original = Envelope(kind="mail", tags=("b", "a"))
    (prepared,) = prepare([original])
    assert prepared.tags == ("a", "b")
    assert original.tags == ("b", "a")


def test_an_empty_unique_key_is_a_key_but_no_target() -> None:
    assert accepted(unique_key=b"").unique_key == b""
    assert refused(unique_key=b"", unique_replace=1) == "unique_replace requires unique_key"
    text = "unique_debounce_ms requires lifecycle unique_key"
    assert refused(unique_debounce_ms=1) == text
    assert refused(unique_key=b"", unique_debounce_ms=1) == text
    assert refused(unique_key=b"k", unique_debounce_ms=1, unique_window_ms=1) == text
    assert accepted(unique_key=b"k", unique_debounce_ms=1, unique_replace=15).unique_replace == 15


def test_a_shorter_bound_for_a_name() -> None:
    check_name("id", "é" * 100, max_bytes=MAX_SCHEDULE_ID_BYTES)
    with pytest.raises(InvalidRequest, match="id must be at most 200 bytes"):
        check_name("id", "é" * 100 + "a", max_bytes=MAX_SCHEDULE_ID_BYTES)


@pytest.mark.parametrize("field", TEXT_FIELDS)
@pytest.mark.parametrize("value", ["", "a", "a" * 255, "a" * 256, "\0", "\x1f"])
def test_the_shortcut_for_plain_names_judges_as_the_long_way(field: str, value: str) -> None:
    fields: dict[str, Any] = {"kind": "mail", field: value}
    assert outcome(Envelope(**fields)) == outcome(Envelope(id="é", **fields))


def outcome(envelope: Envelope) -> str | None:
    try:
        prepare([envelope])
    except InvalidRequest as error:
        return error.message
    return None
