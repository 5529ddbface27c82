"""What pages take for granted where they show only a part of a module."""

from collections.abc import Mapping
from typing import Final

_COMMON: Final = """
from datetime import timedelta

import msgspec
from sqlalchemy.ext.asyncio import AsyncSession

from headgate import Headgate, JobContext

app = Headgate()


class Order(msgspec.Struct):
    id: int
    cents: int
"""

GIVEN: Final[Mapping[str, str]] = {
    "docs/how-to/handlers.md": _COMMON
    + """
from contextlib import asynccontextmanager
from typing import Annotated

from headgate import BatchJob, Data, Depends


class Document(msgspec.Struct):
    text: str


class Stock: ...
""",
    "docs/how-to/steps.md": _COMMON
    + """
from headgate import current_job


class Source(msgspec.Struct):
    url: str
    owner: str


class Receipt(msgspec.Struct):
    order: int
""",
}
