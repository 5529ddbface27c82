"""The pages of the documentation, as the blocks of code that they print."""

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_SAVED: Final = re.compile(r"Save this as `([\w.]+)`[^`]*\Z")


class Block(NamedTuple):
    """A block of a page; `file` is the name under which the text before it saves it."""

    language: str
    text: str
    file: str = ""


def blocks(page: Path) -> list[Block]:
    """The blocks of the page in their order."""
    content = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(content):
        saved = _SAVED.search(content[: match.start()])
        found.append(Block(match[1], match[2], saved[1] if saved else ""))
    return found


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))
