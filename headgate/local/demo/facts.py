"""What the demonstration finds out about a source file, and the table it keeps that in."""

import ast
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Executable, Integer, MetaData, Table, Text, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.schema import Column

metadata = MetaData()

fact = Table(
    "demo_fact",
    metadata,
    Column("path", Text, primary_key=True),
    Column("package", Text, nullable=False),
    Column("lines", Integer, nullable=False),
    Column("functions", Integer, nullable=False),
    Column("classes", Integer, nullable=False),
    Column("longest_function", Text, nullable=False),
    Column("longest_lines", Integer, nullable=False),
)

CREATE_TABLE = text(
    "CREATE TABLE IF NOT EXISTS demo_fact (path text PRIMARY KEY, package text NOT NULL,"
    " lines integer NOT NULL, functions integer NOT NULL, classes integer NOT NULL,"
    " longest_function text NOT NULL, longest_lines integer NOT NULL)"
)


class Facts(msgspec.Struct, kw_only=True, frozen=True):
    """What one source file holds. `longest_function` is "" where there is none."""

    lines: int
    functions: int
    classes: int
    longest_function: str
    longest_lines: int


def read_facts(path: Path) -> Facts:
    """Parses the file. Raises `SyntaxError` or `ValueError` for one that is not Python."""
    source = path.read_bytes()
    functions = classes = longest_lines = 0
    longest_function = ""
    for node in ast.walk(ast.parse(source, filename=path.name)):
        if isinstance(node, ast.ClassDef):
            classes += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions += 1
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > longest_lines:
                longest_function, longest_lines = node.name, length
    return Facts(
        lines=source.count(b"\n"),
        functions=functions,
        classes=classes,
        longest_function=longest_function,
        longest_lines=longest_lines,
    )


def _record() -> Executable:
    given: dict[str, Any] = {
        column.name: bindparam(f"fact_{column.name}", type_=column.type) for column in fact.c
    }
    writing = insert(fact).values(given)
    # A job may run twice, the facts are the same.
    return writing.on_conflict_do_update(
        index_elements=[fact.c.path],
        set_={name: writing.excluded[name] for name in given if name != "path"},
    )


RECORD = _record()


def parameters(path: str, package: str, found: Facts) -> dict[str, Any]:
    """The parameters of `RECORD`."""
    values = {"path": path, "package": package, **msgspec.structs.asdict(found)}
    return {f"fact_{name}": value for name, value in values.items()}


def _largest_packages() -> Executable:
    longest = select(
        fact.c.package,
        fact.c.longest_function,
        fact.c.longest_lines,
        func.row_number()
        .over(partition_by=fact.c.package, order_by=fact.c.longest_lines.desc())
        .label("rank"),
    ).subquery("longest")
    lines = func.sum(fact.c.lines).label("lines")
    return (
        select(
            fact.c.package,
            func.count().label("files"),
            lines,
            func.sum(fact.c.functions).label("functions"),
            func.sum(fact.c.classes).label("classes"),
            longest.c.longest_function,
            longest.c.longest_lines,
        )
        .join(longest, longest.c.package == fact.c.package)
        .where(longest.c.rank == 1)
        .group_by(fact.c.package, longest.c.longest_function, longest.c.longest_lines)
        .order_by(lines.desc())
        .limit(10)
    )


LARGEST_PACKAGES = _largest_packages()
