"""Times as people type them on a command line."""

import re
from datetime import datetime
from typing import Final

import typer

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORM: Final = re.compile(r"([0-9]{1,15})(ms|s|m|min|h|d)?")


def milliseconds(text: str) -> int:
    """`90s`, `5m`, `2h`, `7d` or `250ms` in milliseconds; a bare number is milliseconds already.

    Raises `typer.BadParameter`.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"`{text}` is no duration such as 90s, 5m, 2h or 7d")
    return int(found[1]) * _UNITS[found[2] or "ms"]


def instant_ms(text: str) -> int:
    """`2026-01-31T08:00Z` or `2026-01-31 08:00` in milliseconds since the epoch.

    Without an offset it is the time of the place where it is typed; a bare number is milliseconds
    already. Raises `typer.BadParameter`.
    """
    if found := _FORM.fullmatch(text):
        if found[2] is None:
            return int(text)
    else:
        try:
            return round(datetime.fromisoformat(text).timestamp() * 1_000)
        except (ValueError, OverflowError):
            pass
    raise typer.BadParameter(f"`{text}` is no time such as 2026-01-31T08:00Z or 2026-01-31 08:00")
