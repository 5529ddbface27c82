"""An embedded PostgreSQL for development, demonstrations and tests."""

from headgate.local.directory import ROOT_HOME
from headgate.local.errors import LocalServerError
from headgate.local.places import reachable_directory, temporary_directory
from headgate.local.server import UNSAFE_BUT_FAST, LocalServer, ServerStatus

__all__ = [
    "ROOT_HOME",
    "UNSAFE_BUT_FAST",
    "LocalServer",
    "LocalServerError",
    "ServerStatus",
    "reachable_directory",
    "temporary_directory",
]
