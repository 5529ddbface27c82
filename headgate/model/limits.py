"""How large a value may be, and the wording when it is larger.

Every text names the field first, so that a caller can match it to what was sent. All raise
`InvalidRequest`; none touches a store.
"""

import re
from typing import Final

from headgate.model.errors import InvalidRequest

MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: the bound of every instant and of every duration."""

MAX_INT32: Final = 2_147_483_647
MIN_INT32: Final = -2_147_483_648

MAX_NAME_BYTES: Final = 255
MAX_SCHEDULE_ID_BYTES: Final = 200
"""Shorter than other names: the id of a tick holds it, a prefix and the instant of the tick."""

MAX_PAYLOAD_BYTES: Final = 1_048_576
MAX_UNIQUE_KEY_BYTES: Final = 1_024
MAX_HEADERS: Final = 128
MAX_HEADERS_BYTES: Final = 65_536
MAX_TAGS: Final = 32
MAX_TAG_BYTES: Final = 64
MAX_BATCH_JOBS: Final = 1_000
MAX_BATCH_BYTES: Final = 16_777_216

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def check_milliseconds(field: str, value: int) -> None:
    """Refuse an instant or a duration that is negative or past the year 9999."""
    if value < 0:
        raise InvalidRequest(f"{field} must be >= 0")
    if value > MAX_MS:
        raise InvalidRequest(f"{field} is too large")


def check_count(field: str, value: int) -> None:
    """Refuse a number that is negative or wider than its column."""
    if value < 0:
        raise InvalidRequest(f"{field} must be >= 0")
    if value > MAX_INT32:
        raise InvalidRequest(f"{field} is too large")


def check_priority(value: int) -> None:
    """Refuse a priority that is wider than its column; negative ones are ordinary."""
    if value > MAX_INT32:
        raise InvalidRequest("priority is too large")
    if value < MIN_INT32:
        raise InvalidRequest(f"priority must be >= {MIN_INT32}")


def check_characters(field: str, value: str) -> None:
    """Refuse what PostgreSQL cannot hold in a text: NUL, and half a surrogate pair."""
    if "\0" in value:
        raise InvalidRequest(f"{field} must not contain NUL")
    if not value.isascii() and _SURROGATE.search(value):
        raise InvalidRequest(f"{field} must not contain lone surrogates")


def is_storable(*texts: str) -> bool:
    """Whether a row could hold these texts at all; what none can hold need not be looked for."""
    return not any("\0" in text or _SURROGATE.search(text) for text in texts)


def check_name(field: str, value: str, *, max_bytes: int = MAX_NAME_BYTES) -> None:
    """Refuse a text that PostgreSQL cannot hold or whose UTF-8 form is longer than `max_bytes`."""
    check_characters(field, value)
    if len(value.encode()) > max_bytes:
        raise InvalidRequest(f"{field} must be at most {max_bytes} bytes")
