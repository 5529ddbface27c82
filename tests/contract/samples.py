"""A harmless request of every operation, made from what the document says."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from headgate.api.health import VERSION
from headgate.api.openapi import build_document
from headgate.api.operations import Operation
from headgate.api.table import OPERATIONS
from tests.contract.client import Answer, Client


def noun_of(operation: Operation) -> str:
    """What an operation is about, by its path."""
    return operation.path.removeprefix("/api/v1/").partition("/")[0]


SCHEMAS: Final[Mapping[str, Any]] = build_document(OPERATIONS, VERSION)["components"]["schemas"]

NOUNS: Final = ("jobs", "queues", "periodic", "rate-classes", "concurrency-limits", "workflows")
FAMILIES: Final[Mapping[str, list[Operation]]] = {
    **{noun: [each for each in OPERATIONS if noun_of(each) == noun] for noun in NOUNS},
    "others": [each for each in OPERATIONS if noun_of(each) not in NOUNS],
}

by_family: Final = pytest.mark.parametrize("operations", FAMILIES.values(), ids=FAMILIES)
"""One database for a family of operations: that of each would be most of a walk's cost."""

REQUIRED: Final = {"spec": "@every:60000"}
"""What is harmless where not just anything is."""


def target(operation: Operation, **values: str) -> str:
    """A path of the operation, with `values` or something harmless for its parameters."""
    path = operation.path
    for name in operation.path_parameters:
        path = path.replace("{" + name + "}", quoted(values.get(name, "x")))
    required = [] if operation.query is None else operation.query.required
    given = (f"{name}={REQUIRED.get(name, 'x')}" for name in required)
    return path + ("?" + "&".join(given) if required else "")


def quoted(text: str) -> str:
    return "%" + text.encode().hex("%").upper()


def harmless_body(operation: Operation) -> dict[str, Any]:
    assert operation.body_type is not None
    schema = SCHEMAS[operation.body_type.__name__]
    return {name: harmless(schema["properties"][name]) for name in schema["required"]}


def harmless(schema: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        inner = SCHEMAS[schema["$ref"].rpartition("/")[2]]
        return {name: harmless(inner["properties"][name]) for name in inner.get("required", ())}
    if schema.get("contentEncoding") == "base64":
        return "e30="
    kind = schema.get("type")
    if kind == "array":
        return [harmless(schema["items"])] * schema.get("minItems", 0)
    return {"string": "t.k", "integer": schema.get("minimum", 1), "boolean": False,
            "object": {}}[str(kind)]  # fmt: skip


async def call(client: Client, operation: Operation, path: str, **arguments: Any) -> Answer:
    if operation.body_type is not None:
        arguments.setdefault("json", harmless_body(operation))
    return await client.request(operation.method, path, **arguments)
