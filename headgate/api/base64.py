"""Strict base64: the standard alphabet, padded, without whitespace, canonical."""

from binascii import Error, a2b_base64, b2a_base64

from headgate.model.errors import InvalidRequest


def decode_base64(field: str, text: str) -> bytes:
    """The bytes of `text`; an empty text has none.

    Raises `InvalidRequest` naming `field`. Bits that the last character carries in vain must be
    zero: two texts never mean the same bytes.
    """
    try:
        decoded = a2b_base64(text, strict_mode=True)
    except (Error, ValueError):
        raise InvalidRequest(f"{field} must be base64") from None
    # The strict mode still lets the bits in vain pass.
    if b2a_base64(decoded, newline=False) != text.encode():
        raise InvalidRequest(f"{field} must be base64")
    return decoded
