"""The types of the wire: what a JSON body may hold, and how answers are encoded.

Bounds that come with the type are checked while decoding and answered 422. `narrower` says in the
OpenAPI document what the domain accepts beyond that, which is judged later and answered 400.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

NARROWER: Final = "x-narrower"
"""Keywords under this one replace those of the type in the OpenAPI document."""


def narrower(**keywords: Any) -> Meta:
    """JSON Schema keywords that the document shows and the decoder does not enforce."""
    return Meta(extra_json_schema={NARROWER: keywords})


class U64(int):
    """0 to 2^64-1. A class, since the decoder's own bounds end at 2^63-1."""

    maximum: Final = 2**64 - 1


U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
I64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

Base64 = Annotated[
    str,
    narrower(
        contentEncoding="base64",
        pattern="^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
    ),
]
"""Base64 as text: whether it is one is judged by the handler, which answers 400."""

Count = Annotated[U32, narrower(maximum=2**31 - 1)]
"""A number whose column is narrower than its type on the wire."""

Milliseconds = Annotated[I64, narrower(minimum=0, maximum=253_402_300_799_999)]
"""An instant since the epoch, or a duration."""

Name = Annotated[str, narrower(maxLength=255, pattern=r"^[^\u0000]*$")]
"""A name: at most 255 bytes of UTF-8, without NUL."""


def decode_hook(kind: type, value: object) -> object:
    """Builds the types that the decoder does not know. Raises for what does not fit."""
    # The exact type: a boolean is an int to Python, and 1.0 must not pass for 1.
    if kind is U64 and type(value) is int and 0 <= value <= U64.maximum:
        return U64(value)
    raise ValueError


_encoder: Final = msgspec.json.Encoder(order="sorted")


def encode(value: object) -> bytes:
    """Compact UTF-8 JSON with sorted keys; bytes become base64."""
    return _encoder.encode(value)
