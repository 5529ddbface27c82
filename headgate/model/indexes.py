"""Indexes as operators see them."""

import msgspec


class IndexHealth(msgspec.Struct, kw_only=True, frozen=True):
    """One index. `valid` false: queries do not use it, though every write pays for it.

    `leftover`: an interrupted rebuild left it, and it serves nothing. `rows_estimated` are those of
    its table as of the database's last analysis; `scans` and `entries_read` count since its
    statistics were reset.
    """

    name: str
    table: str
    valid: bool
    leftover: bool
    bytes: int
    rows_estimated: int
    scans: int
    entries_read: int
