"""What an application can get wrong before any job exists."""

from headgate.model.errors import HeadgateError


class RegistrationError(HeadgateError):
    """A handler that cannot be registered: its kind, its options or its signature."""


class NotOpen(HeadgateError):
    """The application has no store to write to."""

    def __init__(self) -> None:
        super().__init__("the application is not open: `await app.open()`, or run it in a worker")
