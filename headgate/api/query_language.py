"""The language of `q`: terms between white space, all of which must hold."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.api.query import parse_integer
from headgate.model.errors import InvalidRequest
from headgate.model.job import JobFilter
from headgate.model.limits import MAX_INT32, MIN_INT32

# White space as Unicode defines it. Python's own splits at U+001C to U+001F too.
_TERM: Final = re.compile("[^\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")

_FIELDS: Final[Mapping[str, str]] = {
    "id": "id",
    "queue": "queue",
    "state": "state",
    "kind": "kind",
    "partition": "partition_key",
    "rate_class": "rate_class",
    "fingerprint": "fingerprint",
}
_TAG_FIELDS: Final[Mapping[str, str]] = {"tag": "tags_all", "tag_any": "tags_any"}


def search(text: str, base: JobFilter) -> JobFilter:
    """`base` with the conditions of `text`, which win over those it has.

    A term is split at its first colon. Without one it is the beginning of a kind; otherwise it
    names a field and the exact value, which may be empty and may hold colons. The last term of a
    field counts, except that tags add up. Raises `InvalidRequest`.
    """
    changes: dict[str, Any] = {}
    for term in _TERM.findall(text):
        name, colon, value = term.partition(":")
        if not colon:
            changes["kind_prefix"] = term
        elif name in _FIELDS:
            changes[_FIELDS[name]] = value
        elif name in _TAG_FIELDS:
            field = _TAG_FIELDS[name]
            changes[field] = (*changes.get(field, getattr(base, field)), value)
        elif name == "priority":
            priority = parse_integer(value, MIN_INT32, MAX_INT32)
            if priority is None:
                raise InvalidRequest(f"priority `{value}` is not a number")
            changes["priority"] = priority
        else:
            raise InvalidRequest(f"unknown search field `{name}`")
    return msgspec.structs.replace(base, **changes)
