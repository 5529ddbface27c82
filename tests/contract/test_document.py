"""The OpenAPI document: committed as it is generated, complete, and served wherever mounted."""

import html
import json
import re
import runpy
import shlex
from getopt import gnu_getopt as getopt
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml
from starlette.applications import Starlette
from starlette.routing import Mount

from headgate.api.application import create_app
from headgate.api.health import VERSION
from headgate.api.openapi import build_document
from headgate.api.table import OPERATIONS
from headgate.store.store import Store
from tests.contract.client import Client

ROOT = Path(__file__).parents[2]
DOCUMENT = build_document(OPERATIONS, VERSION)


def test_the_committed_document_is_generated_from_the_code() -> None:
    generate = runpy.run_path(str(ROOT / "openapi" / "generate.py"))
    committed = (ROOT / "openapi" / "headgate.yaml").read_text(encoding="utf-8")
    assert committed == generate["rendered"](), "stale: run python openapi/generate.py"
    assert yaml.safe_load(committed) == json.loads(json.dumps(DOCUMENT))


def test_every_operation_says_all_that_can_happen() -> None:
    for operation in OPERATIONS:
        described = DOCUMENT["paths"][operation.path][operation.method.lower()]
        assert described["summary"]
        statuses = set(described["responses"])
        assert {"405", "500"} <= statuses
        assert "503" in statuses or not operation.uses_store
        if operation.mutates:
            assert {"400", "403"} <= statuses
            assert {"$ref": "#/components/parameters/IdempotencyKey"} in described["parameters"]
        if operation.path_parameters:
            assert "400" in statuses
        if operation.body_type is not None:
            assert {"400", "413", "415", "422"} <= statuses
            assert described["requestBody"]["required"]


def test_every_json_body_has_an_example_and_all_fit_their_schemas() -> None:
    for operation in OPERATIONS:
        described = DOCUMENT["paths"][operation.path][operation.method.lower()]
        bodies = [described["requestBody"]] if "requestBody" in described else []
        bodies += [resolved(each) for each in described["responses"].values()]
        for media_type, content in (
            each for body in bodies for each in body.get("content", {}).items()
        ):
            examples = content.get("examples", {})
            assert (
                examples or media_type != "application/json" or operation.name == "openapi_document"
            )
            schema = {**content["schema"], "components": DOCUMENT["components"]}
            validate = jsonschema_rs.validator_for(json.loads(json.dumps(schema))).validate
            for example in examples.values():
                validate(json.loads(json.dumps(example["value"])))


def test_every_link_names_an_operation_and_its_parameters() -> None:
    parameters = {each.name: set(each.path_parameters) for each in OPERATIONS}
    for operation in OPERATIONS:
        described = DOCUMENT["paths"][operation.path][operation.method.lower()]
        for answer in described["responses"].values():
            for link in resolved(answer).get("links", {}).values():
                assert set(link["parameters"]) == parameters[link["operationId"]]


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """The response, wherever it stands."""
    if "$ref" not in part:
        return part
    found: dict[str, Any] = DOCUMENT["components"]["responses"][part["$ref"].rpartition("/")[2]]
    return found


def test_nothing_in_the_document_is_internal() -> None:
    text = json.dumps(DOCUMENT)
    assert "x-narrower" not in text
    for reference in references(DOCUMENT):
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if "$ref" in part else []
        return own + [each for value in part.values() for each in references(value)]
    if isinstance(part, list):
        return [each for value in part for each in references(value)]
    return []


async def test_it_is_served(client: Client) -> None:
    answer = await client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == json.loads(json.dumps(DOCUMENT))


async def test_the_page_loads_nothing_and_runs_nothing(client: Client) -> None:
    answer = await client.get("/docs")
    page = answer.body.decode()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    for operation in OPERATIONS:
        assert operation.path.replace("&", "&amp;") in page
    for loading in ("<script", "<img", "<link", "src=", "http://", "https://", "url("):
        assert loading not in page


async def test_every_command_of_the_page_can_be_sent(client: Client) -> None:
    page = html.unescape((await client.get("/docs")).body.decode())
    commands = re.findall(r"<code>(curl .*?)</code></pre>", page)
    assert len(commands) == len(OPERATIONS)
    whole = Client(client.app, prefix="")
    for command in commands:
        given = getopt(shlex.split(command)[1:], "X:H:d:")
        options = {name: value for name, value in given[0] if name != "-H"}
        headers = [value.split(": ") for name, value in given[0] if name == "-H"]
        answer = await whole.request(
            options.get("-X", "GET"),
            given[1][0].removeprefix("$API"),
            headers=[(name, value) for name, value in headers],
            body=options.get("-d", "").encode(),
            key=None,
        )
        assert answer.status < 300 or answer.status == 404, (command, answer)
        assert answer.status < 300 or answer.body, command


async def test_below_another_application_everything_keeps_its_place(store: Store) -> None:
    outer = Starlette(routes=[Mount("/ops/{tenant}", create_app(store))])
    client = Client(outer, prefix="/ops/a%20b/api/v1")
    job = {"kind": "t.k", "payload": "e30=", "id": "a/b"}
    assert (await client.request("POST", "/jobs", json=job)).status == 201
    assert (await client.get("/jobs/a%2Fb")).json()["id"] == "a/b"
    assert (await client.get("/jobs/a/b")).status == 404
    assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/ops/a%20b"}]
    assert (await client.get("/nosuch")).body == b""


async def test_behind_a_proxy_that_strips_its_prefix(store: Store) -> None:
    client = Client(create_app(store), root_path="/ops")
    assert (await client.get("/meta")).status == 200
    assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/ops"}]
