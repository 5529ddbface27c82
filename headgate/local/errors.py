"""What can go wrong with a local server, in one line that says what to do about it."""

from headgate.model.errors import HeadgateError


class LocalServerError(HeadgateError):
    """The local PostgreSQL cannot be found, created, started, reached or stopped."""
