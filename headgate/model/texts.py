"""Texts that a handler wrote, made fit for storing. They are never a reason to lose a report."""

import re
from typing import Final

MAX_TEXT_BYTES: Final = 16_384
"""How much of an error or of a log line is kept, in bytes of UTF-8, the mark included."""

CUT_MARK: Final = " [cut]"

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def clean(text: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """`text` as PostgreSQL can hold it, at most `max_bytes` long. Never raises.

    NUL is removed, half a surrogate pair becomes U+FFFD. What is too long ends in ` [cut]`, and
    never in the middle of a character.
    """
    if "\0" in text:
        text = text.replace("\0", "")
    if text.isascii():
        if len(text) <= max_bytes:
            return text
    else:
        # Every character takes a byte at least, so the rest cannot matter.
        text = _SURROGATE.sub("\ufffd", text[: max_bytes + 1])
    encoded = text[: max_bytes + 1].encode()
    if len(encoded) <= max_bytes:
        return text
    kept = encoded[: max(0, max_bytes - len(CUT_MARK))]
    return kept.decode(errors="ignore") + CUT_MARK
