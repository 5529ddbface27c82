"""The rule that every kind obeys: of a job, of a schedule, and of an alias.

One function, so that what can be registered can be enqueued and the other way round.
"""

import re
from functools import lru_cache
from typing import Final

from headgate.model.errors import InvalidRequest

_KIND: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.:+]{0,127}")


@lru_cache(maxsize=1024)
def check_kind(kind: str) -> None:
    """Refuse a kind that breaks the rule with `InvalidRequest`.

    Kinds are few and come again with every job, so those that passed are remembered.
    """
    if _KIND.fullmatch(kind) is None:
        shown = kind.encode(errors="replace").decode()
        raise InvalidRequest(
            f"invalid kind `{shown}`: 1-128 characters, first [A-Za-z0-9_],"
            " rest [A-Za-z0-9_] or one of -[]<>/.:+"
        )
