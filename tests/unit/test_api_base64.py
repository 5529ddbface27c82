"""Base64 on the wire is strict, so that one text means one content."""

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.base64 import decode_base64
from headgate.model.errors import InvalidRequest


@given(st.binary(max_size=100))
def test_what_was_encoded_is_decoded(content: bytes) -> None:
    assert decode_base64("payload", b64encode(content).decode()) == content


@pytest.mark.parametrize(
    "text",
    ["!!", "%", "e30", "e3", "e", "=", "e30==", "e31=", "QR==", "e30=\n", " e30=", "e3 0=", "====",
     "e30=e30=", "e30=x", "-_-_", "é", "e30=\0", "e30\uff1d"],
)  # fmt: skip
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_base64("unique_key", text)
    assert caught.value.message == "unique_key must be base64"
