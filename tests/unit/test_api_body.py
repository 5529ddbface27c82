"""Every way in which a body can be wrong has its status and its text."""

import asyncio
from typing import Annotated

import msgspec
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from headgate.api import body as body_module
from headgate.api.body import BodyReader
from headgate.api.errors import Refusal
from headgate.api.wire import I32, I64, U32, U64, narrower


class Inner(msgspec.Struct, kw_only=True):
    name: str
    queue: str | None = None


class Body(msgspec.Struct, kw_only=True):
    first: str
    count: Annotated[U32 | None, narrower(minimum=5)] = 1
    second: str
    small: I32 = 0
    large: I64 = 0
    huge: U64 | None = None
    flag: bool = False
    names: list[str] = []
    inner: Inner | None = None


READER = BodyReader(Body, 1000)
GOOD = b'"first":"a","second":"b"'


def refusal(body: bytes) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        READER.decode(body)
    return caught.value.status, caught.value.body.error


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b'{"first":"a",', b"{" + GOOD + b"} x", b"{" + GOOD + b"}{}",
     b"\xef\xbb\xbf{" + GOOD + b"}", b"\xff\xfe{\x00}\x00", b"{" + GOOD + b",}", b"{'first':1}",
     b'{"first":"\xff","second":"b"}', b"{" + GOOD + b',"other":"\xff"}',
     b"{" + GOOD + b',"\xff":1}', b'{"first":"\xed\xa0\x80","second":"b"}',
     b'{"first":"\\ud800","second":"b"}', b'{"first":"\\udc00\\ud800","second":"b"}',
     b"{" + GOOD + b',"other":"\\ud800"}', b'{"first":"a\nb","second":"b"}',
     b"{" + GOOD + b',"other":NaN}', b"{" + GOOD + b',"other":01}', b"{" + GOOD + b',"other":1.}',
     b"{" + GOOD + b',"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"nul"],
)  # fmt: skip
def test_what_is_not_json_is_bad_json(body: bytes) -> None:
    assert refusal(body) == (400, "bad json")


@pytest.mark.parametrize(
    ("body", "field"),
    [(b"{}", "first"), (b'{"second":"b"}', "first"), (b'{"first":"a"}', "second"),
     (b'{"first":"a","count":null}', "second"), (b"{" + GOOD + b',"inner":{}}', "name")],
)  # fmt: skip
def test_the_first_missing_field_in_order_of_declaration_is_named(body: bytes, field: str) -> None:
    assert refusal(body) == (422, f"missing field `{field}`")


@pytest.mark.parametrize(
    "body",
    [b"null", b"[]", b'["a",1,"b"]', b'"x"', b"1", b"true",
     b'{"first":null}', b'{"first":1}', b'{"count":"x"}', b'{"second":[]}',
     b'{"first":1,', b'{"first":"a","first":2,"second":"b"}']
    + [b"{" + GOOD + b',"%s":%s}' % pair for pair in [
        (b"count", b"1.0"), (b"count", b"1e0"), (b"count", b"-1"), (b"count", b"true"),
        (b"count", b"4294967296"), (b"count", b'"1"'), (b"count", b"9" * 5000),
        (b"small", b"2147483648"), (b"small", b"-2147483649"), (b"small", b"null"),
        (b"large", b"9223372036854775808"), (b"large", b"-9223372036854775809"),
        (b"huge", b"18446744073709551616"), (b"huge", b"-1"), (b"huge", b"1.0"),
        (b"huge", b"true"), (b"huge", b'"1"'), (b"huge", b"[]"), (b"huge", b"9" * 5000),
        (b"flag", b"null"), (b"flag", b"1"), (b"names", b"null"), (b"names", b"[null]"),
        (b"names", b'{"0":"a"}'), (b"inner", b'["a"]'), (b"inner", b'{"name":1}'),
    ]],
)  # fmt: skip
def test_json_of_another_shape_is_an_invalid_body(body: bytes) -> None:
    assert refusal(body) == (422, "invalid request body")


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [("count", "0", 0), ("count", "4294967295", 2**32 - 1), ("count", "null", None),
     ("small", "-2147483648", -(2**31)), ("large", "-9223372036854775808", -(2**63)),
     ("huge", "18446744073709551615", 2**64 - 1), ("huge", "null", None),
     ("first", '"\\u0000"', "\0"), ("first", '"\\ud83d\\ude00"', "😀"),
     ("first", '"\\\\ud800"', "\\ud800"), ("inner", "null", None)],
)  # fmt: skip
def test_what_fits_is_read(field: str, value: str, read: object) -> None:
    body = READER.decode(b"{" + GOOD + f',"{field}":{value}'.encode() + b"} \r\n\t")
    assert getattr(body, field) == read


def test_unknown_fields_are_ignored_and_the_last_of_two_counts() -> None:
    body = READER.decode(
        b'{"other":{"a":[1,2]},"first":"x",' + GOOD + b',"flag":true,"flag":false}'
    )
    assert (body.first, body.flag) == ("a", False)


def request(*chunks: bytes, headers: dict[str, str], disconnect: bool = False) -> Request:
    messages: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": disconnect or number < len(chunks) - 1}
        for number, chunk in enumerate(chunks)
    ]
    if disconnect:
        messages.append({"type": "http.disconnect"})

    async def receive() -> Message:
        return messages.pop(0)

    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "headers": encoded}, receive)


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "media_type",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;",
     " application/json\t; x=y", "application/vnd.api+json", "application/problem+JSON;a=b"],
)  # fmt: skip
async def test_media_types_of_json_are_read(media_type: str) -> None:
    body = await READER.read(request(b"{" + GOOD + b"}", headers={"content-type": media_type}))
    assert body.first == "a"


@pytest.mark.parametrize(
    "media_type",
    [None, "", "text/plain", "text/json", "application/jsonx", "application/xjson", "json",
     "application/+json", "application/json, text/plain", "application/x-www-form-urlencoded",
     "xapplication/json", "application/json\xff", "a;application/json"],
)  # fmt: skip
async def test_any_other_media_type_is_refused_before_the_body_is_read(
    media_type: str | None,
) -> None:
    headers = {} if media_type is None else {"content-type": media_type}
    with pytest.raises(Refusal) as caught:
        await READER.read(request(b"x" * 2000, headers=headers))
    assert caught.value.status == 415
    assert caught.value.body.error == "expected Content-Type: application/json"


@pytest.mark.parametrize(
    ("chunks", "headers"),
    [((b"x" * 1001,), {}), ((b"x" * 600, b"y" * 600), {}), ((b"",), {"content-length": "1001"}),
     ((b"",), {"content-length": "9" * 5000})],
)  # fmt: skip
async def test_too_many_bytes_are_refused(
    chunks: tuple[bytes, ...], headers: dict[str, str]
) -> None:
    with pytest.raises(Refusal) as caught:
        await READER.read(request(*chunks, headers=JSON | headers))
    assert caught.value.status == 413
    assert caught.value.body.error == "request body exceeds 1000 bytes"


async def test_a_body_in_pieces_is_put_together_up_to_the_limit() -> None:
    whole = b"{" + GOOD + b"}"
    padded = whole + b" " * (1000 - len(whole))
    body = await READER.read(request(padded[:7], b"", padded[7:], headers=JSON))
    assert body.second == "b"


async def test_a_client_that_goes_away_is_not_a_bad_request() -> None:
    with pytest.raises(ClientDisconnect):
        await READER.read(request(b"{", headers=JSON, disconnect=True))


async def test_a_client_that_sends_no_more_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nothing comes")

    monkeypatch.setattr(body_module, "PATIENCE_S", 0.01)
    headers = [(b"content-type", b"application/json")]
    with pytest.raises(Refusal) as caught:
        await READER.read(Request({"type": "http", "headers": headers}, receive))
    assert caught.value.status == 408
    assert caught.value.headers == {"connection": "close"}
