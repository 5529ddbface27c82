"""How far an import has come: one of the records that keep an enqueue from being repeated.

The scope holds a blank, which no kind has, so it never meets the key of a request for a job.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import BigInteger, Select, Text, bindparam, cast, func, select
from sqlalchemy.dialects.postgresql import Insert, insert

from headgate.queries.clock import instant
from headgate.queries.literals import number, word
from headgate.tables import enqueue_key

_DIGITS: Final = 19


def _scope() -> Any:
    return bindparam("import_scope", type_=Text)


@cache
def last_mark() -> Select[Any]:
    """The greatest `position` that is marked under `import_scope`; no row when none is."""
    return (
        select(cast(enqueue_key.c.key, BigInteger).label("position"))
        .where(enqueue_key.c.scope == _scope())
        .order_by(enqueue_key.c.key.desc())
        .limit(number(1))
    )


@cache
def set_mark() -> Insert:
    """Marks `position` under `import_scope`; `last_job_id` is the last job up to there."""
    position = cast(bindparam("position", type_=BigInteger), Text)
    return insert(enqueue_key).values(
        scope=_scope(),
        # As many digits each time, so that the greatest stands last in the key.
        key=func.lpad(position, number(_DIGITS), word("0")),
        job_id=bindparam("last_job_id", type_=Text),
        recorded_at_ms=instant(),
    )
