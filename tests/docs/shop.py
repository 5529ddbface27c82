"""The application that pages speak of: what the first steps print, and what is left to readers."""

from pathlib import Path
from typing import Final

from tests.docs.pages import DOCS, blocks

_JOBS: Final = """
import msgspec

from headgate import Headgate

app = Headgate(workflows=True)


class Receipt(msgspec.Struct):
    order: int


class MailServer:
    def __init__(self) -> None:
        self.sent = 0
        self.refusing = False

    def refuse_next(self) -> None:
        self.refusing = True


mail_server = MailServer()


@app.task("receipt", queue="mail")
async def send_receipt(receipt: Receipt) -> None:
    if mail_server.refusing:
        mail_server.refusing = False
        raise ConnectionError("mail server is away")
    mail_server.sent += 1


@app.task("lookup", queue="lookups", rate_class="vendor")
async def look_up() -> None: ...
"""

_ORDERS: Final = """
from shop.jobs import send_receipt


async def place_order(number: int) -> None:
    await send_receipt.enqueue({"order": number})
"""


def write_shop(directory: Path) -> None:
    """Puts the package `shop` into the directory."""
    package = directory / "shop"
    package.mkdir()
    (first,) = (
        block.text
        for block in blocks(DOCS / "tutorial" / "first-steps.md")
        if block.file == "shop.py"
    )
    imports, _ = (
        block.text
        for block in blocks(DOCS / "how-to" / "workflows.md")
        if block.language == "python"
    )
    imports = imports.replace("app = Headgate(workflows=True)", "from shop.jobs import app")
    modules = {"__init__": first, "jobs": _JOBS, "orders": _ORDERS, "imports": imports}
    for name, content in modules.items():
        (package / f"{name}.py").write_text(content)
