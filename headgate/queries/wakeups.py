"""Wake-ups: the name of a queue on a channel of the installation."""

import hashlib
from functools import cache
from typing import Any

from sqlalchemy import Select, Text, bindparam, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY


def wakeup_channel(schema: str) -> str:
    """The channel of an installation; each schema has its own."""
    if schema == "public":
        return "headgate_wakeup"
    return f"headgate_wakeup_{hashlib.sha256(schema.encode()).hexdigest()[:16]}"


@cache
def notify(channel: str) -> Select[Any]:
    """Notifies the channel once for each queue of `queues`."""
    queue = func.unnest(bindparam("queues", type_=ARRAY(Text))).column_valued("queue")
    return select(func.pg_notify(literal(channel), queue))
