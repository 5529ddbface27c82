"""Query strings: form decoding, coercion, and the language of `q`."""

import msgspec
import pytest

from headgate.api.errors import Refusal
from headgate.api.query import QueryReader, parse_integer
from headgate.api.query_language import search
from headgate.api.wire import I64, U32, U64
from headgate.model.errors import InvalidRequest
from headgate.model.job import JobFilter


class Parameters(msgspec.Struct, kw_only=True):
    queue: str
    kind: str | None = None
    limit: U32 = 50
    since_ms: I64 | None = None
    cursor: U64 = U64(0)
    force: bool = False
    other: str = ""


READER = QueryReader(Parameters)


def refusal(query: bytes) -> str:
    with pytest.raises(Refusal) as caught:
        READER.read(query)
    assert caught.value.status == 400
    return caught.value.body.error


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [(b"queue=", "queue", ""), (b"queue", "queue", ""), (b"queue=a+b", "queue", "a b"),
     (b"queue=a%2Bb", "queue", "a+b"), (b"queue=%26%3D", "queue", "&="),
     (b"queue=a=b=c", "queue", "a=b=c"), (b"queue=%ff", "queue", "\ufffd"),
     (b"queue=\xc3\xa9", "queue", "é"), (b"queue=%C3%A9", "queue", "é"),
     (b"queue=%00", "queue", "\0"), (b"queue=%zz%", "queue", "%zz%"),
     (b"%71ueue=x", "queue", "x"), (b"&&queue=x&", "queue", "x"),
     (b"queue=x&nosuch=1&nosuch=2", "queue", "x"), (b"queue=x", "kind", None),
     (b"queue=x&kind=", "kind", ""), (b"queue=x&limit=0", "limit", 0),
     (b"queue=x&limit=%2B7", "limit", 7), (b"queue=x&limit=4294967295", "limit", 2**32 - 1),
     (b"queue=x&limit=" + b"0" * 5000 + b"7", "limit", 7),
     (b"queue=x&since_ms=-9223372036854775808", "since_ms", -(2**63)),
     (b"queue=x&cursor=18446744073709551615", "cursor", 2**64 - 1),
     (b"queue=x&force=true", "force", True), (b"queue=x&force=false", "force", False)],
)  # fmt: skip
def test_a_parameter_is_read(query: bytes, name: str, value: object) -> None:
    assert getattr(READER.read(query), name) == value


@pytest.mark.parametrize(
    "pair",
    ["limit=", "limit=-1", "limit=-0", "limit=4294967296", "limit=1.0", "limit=1e3", "limit=1_0",
     "limit=%201", "limit=1%20", "limit=+1", "limit=%D9%A1", "limit=0x1", "limit=%2B", "limit=null",
     "limit=" + "9" * 5000, "since_ms=9223372036854775808", "since_ms=-9223372036854775809",
     "since_ms=1.5", "since_ms=--1", "cursor=18446744073709551616", "cursor=-1", "force=",
     "force=1", "force=yes", "force=True", "force=%20true"],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_named(pair: str) -> None:
    name = pair.partition("=")[0]
    assert refusal(f"queue=x&{pair}".encode()) == f"invalid query parameter `{name}`"


def test_the_first_thing_wrong_wins_and_what_is_missing_comes_last() -> None:
    assert refusal(b"queue=a&queue=b") == "invalid query string"
    assert refusal(b"limit=1&limit=x") == "invalid query string"
    assert refusal(b"limit=x&limit=1") == "invalid query parameter `limit`"
    assert refusal(b"") == "missing query parameter `queue`"
    assert refusal(b"force=1") == "invalid query parameter `force`"


def test_a_field_that_cannot_be_read_from_a_query_is_refused_at_start() -> None:
    class Wrong(msgspec.Struct):
        tags: list[str]

    class Unbounded(msgspec.Struct):
        limit: int

    for struct in (Wrong, Unbounded):
        with pytest.raises(TypeError, match="query parameter"):
            QueryReader(struct)


def test_integers_keep_to_their_bounds() -> None:
    assert parse_integer("+5", 0, 9) == 5
    assert parse_integer("-5", -9, 9) == -5
    assert parse_integer("-0", 0, 9) is None
    assert parse_integer("10", 0, 9) is None
    assert parse_integer("5\n", 0, 9) is None


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", {}),
        ("  \t\n ", {}),
        ("queue:a kind:b:c", {"queue": "a", "kind": "b:c"}),
        ("queue:", {"queue": ""}),
        ("report", {"kind_prefix": "report"}),
        ("one two", {"kind_prefix": "two"}),
        ("id:a id:b", {"id": "b"}),
        ("partition:p rate_class:r fingerprint:f state:bogus",
         {"partition_key": "p", "rate_class": "r", "fingerprint": "f", "state": "bogus"}),
        ("tag:a tag:b tag_any:c", {"tags_all": ("x", "a", "b"), "tags_any": ("c",)}),
        ("priority:-7", {"priority": -7}),
        ("priority:+2147483647", {"priority": 2147483647}),
        ("a\u3000queue:b", {"kind_prefix": "a", "queue": "b"}),
        # Not white space to Unicode, though Python's own splitting thinks so.
        ("queue:a\x1cb", {"queue": "a\x1cb"}),
        ("queue:'a b'", {"queue": "'a", "kind_prefix": "b'"}),
    ],
)  # fmt: skip
def test_terms_become_conditions(text: str, changes: dict[str, object]) -> None:
    base = JobFilter(queue="base", tags_all=("x",))
    assert search(text, base) == msgspec.structs.replace(base, **changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bogus:x", "unknown search field `bogus`"),
        (":x", "unknown search field ``"),
        ("Queue:x", "unknown search field `Queue`"),
        ("partition_key:x", "unknown search field `partition_key`"),
        ("priority:hi", "priority `hi` is not a number"),
        ("priority:", "priority `` is not a number"),
        ("priority:2147483648", "priority `2147483648` is not a number"),
        ("priority:1_0", "priority `1_0` is not a number"),
        ("priority:1.0", "priority `1.0` is not a number"),
    ],
)
def test_a_term_that_says_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        search(text, JobFilter())
    assert caught.value.message == message
