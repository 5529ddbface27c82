"""What the tests of an application that uses Headgate import.

The fixture `headgate_database`, a fresh database with Headgate's schema for each test, comes by
itself with the pytest plugin, `headgate.testing.plugin`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.testing.draining import Performed, drain, perform
    from headgate.testing.expectations import assert_enqueued, find_enqueued, refute_enqueued
    from headgate.testing.time_travel import advance_time

__all__ = [
    "Performed",
    "advance_time",
    "assert_enqueued",
    "drain",
    "find_enqueued",
    "perform",
    "refute_enqueued",
]

_HOME_OF = {
    "Performed": "draining",
    "drain": "draining",
    "perform": "draining",
    "assert_enqueued": "expectations",
    "find_enqueued": "expectations",
    "refute_enqueued": "expectations",
    "advance_time": "time_travel",
}


def __getattr__(name: str) -> object:
    # The plugin lives here too and is loaded by every run of pytest: it must stay cheap.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
