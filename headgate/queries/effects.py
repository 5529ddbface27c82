"""Effects that happen once: a key that the first transaction to commit keeps."""

from functools import cache

from sqlalchemy import Executable, Text, bindparam, select
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.clock import instant
from headgate.tables import effect


@cache
def claim_effect() -> Executable:
    """Takes `effect_key`; a row when nobody had it.

    Where another transaction took it and is still open, this waits for its end.
    """
    return (
        insert(effect)
        .values(key=bindparam("effect_key", type_=Text), at_ms=instant())
        .on_conflict_do_nothing(index_elements=[effect.c.key])
        .returning(effect.c.key)
    )


@cache
def find_effect() -> Executable:
    """A row when a transaction that is committed has taken `effect_key`."""
    return select(effect.c.key).where(effect.c.key == bindparam("effect_key", type_=Text))
