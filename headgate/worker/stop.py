"""Why an attempt is told to end before it has ended by itself."""

from enum import Enum


class Stop(Enum):
    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    LEASE_LOST = "lease lost"
    RELEASED = "released"
