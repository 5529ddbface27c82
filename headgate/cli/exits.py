"""What a command ends with: scripts tell by it what went wrong."""

from collections.abc import Mapping
from typing import Final

from headgate.model.errors import HeadgateError

EXIT_FAILED: Final = 1
EXIT_NOT_FOUND: Final = 3
EXIT_REFUSED: Final = 4
EXIT_NOT_ALLOWED: Final = 5
EXIT_UNAVAILABLE: Final = 6

_EXITS: Final[Mapping[int, int]] = {
    400: EXIT_REFUSED,
    401: EXIT_NOT_ALLOWED,
    403: EXIT_NOT_ALLOWED,
    404: EXIT_NOT_FOUND,
    408: EXIT_UNAVAILABLE,
    409: EXIT_REFUSED,
    422: EXIT_REFUSED,
    423: EXIT_REFUSED,
    429: EXIT_REFUSED,
    503: EXIT_UNAVAILABLE,
}


def exit_code(status: int) -> int:
    """What the command ends with when it is answered so."""
    return _EXITS.get(status, EXIT_FAILED)


class ApiError(HeadgateError):
    """The API said no, or nothing. `exit_code` is what the command ends with."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
