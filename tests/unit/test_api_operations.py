"""Operations: what their declarations demand, and the order in which a request is checked."""

from typing import Any

import msgspec
import pytest
from starlette.responses import Response

from headgate.api.errors import Refusal
from headgate.api.operations import Answer, operation
from headgate.api.requests import ApiRequest, idempotency_key
from headgate.api.responses import empty_response


class Body(msgspec.Struct):
    name: str


async def handler(request: ApiRequest, id: str, body: Body) -> Response:
    """Do something.

    And something more.
    """
    return empty_response()


def test_the_signature_says_what_is_read() -> None:
    declared = operation("PUT", "/things/{id}", Answer(204, "Done."))(handler)
    assert declared.path == "/api/v1/things/{id}"
    assert declared.path_parameters == ("id",)
    assert declared.body_type is Body
    assert declared.query is None
    assert declared.mutates


@pytest.mark.parametrize("path", ["/things", "/things/{name}", "/things/{id}/{name}"])
def test_a_handler_must_take_the_parameters_of_its_path(path: str) -> None:
    with pytest.raises(TypeError, match="does not take the parameters"):
        operation("PUT", path)(handler)


def scope(*keys: bytes) -> dict[str, Any]:
    return {"headers": [(b"host", b"x"), *((b"idempotency-key", key) for key in keys)]}


def test_the_first_key_counts() -> None:
    assert idempotency_key(scope(b"a!~", b"b")) == "a!~"
    assert idempotency_key(scope(b"k" * 255)) == "k" * 255


@pytest.mark.parametrize("keys", [(), (b"",), (b"", b"b")])
def test_a_missing_or_empty_key_is_missing(keys: tuple[bytes, ...]) -> None:
    with pytest.raises(Refusal) as caught:
        idempotency_key(scope(*keys))
    assert caught.value.status == 400
    assert caught.value.body.error == (
        "Idempotency-Key header is required on every mutating request"
    )


@pytest.mark.parametrize("key", [b"k" * 256, b"a b", b" ", b"\xc3\xa9", b"a\tb", b"\x7f", b"a\n"])
def test_a_key_that_cannot_be_told_apart_is_refused(key: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        idempotency_key(scope(key))
    assert caught.value.body.error == "Idempotency-Key must be 1-255 visible ASCII characters"
