"""The OpenAPI document as one page of HTML, for people. It needs no script and no other file."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final
from urllib.parse import quote

STYLE: Final = """\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem;border-bottom:1px solid #8886}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}
pre{white-space:pre-wrap;font-family:inherit;overflow-wrap:anywhere}
details{margin:.5rem 0;padding:.4rem .8rem;border:1px solid #8886;border-radius:.3rem}
summary{cursor:pointer}summary b{display:inline-block;min-width:4.5rem}
table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.2rem .8rem .2rem 0;text-align:left;
vertical-align:top}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}
"""


_COMMANDS: Final = """\
Each operation has a command to try, in which API is the address of this page without its end
/api/v1/docs, and words in capitals stand for names of yours. Where access is on it needs the header
Authorization: Bearer TOKEN too."""

_PARAMETER: Final = re.compile(r"{(\w+)}")


def render_page(document: Mapping[str, Any]) -> str:
    """The page for `document`. Whatever stands in it is shown as text."""
    info = document["info"]
    by_subject: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            block = _operation(document, method.upper(), path, operation)
            by_subject.setdefault(operation["tags"][0], []).append(block)
    sections = (
        f"<h2>{escape(subject)}</h2>{''.join(blocks)}" for subject, blocks in by_subject.items()
    )
    schemas = (
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"{_prose(schema.get('description'))}{_fields(schema)}</details>"
        for name, schema in document["components"]["schemas"].items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(info['title'])}</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f'{_prose(info["description"])}<p><a href="openapi.json">openapi.json</a></p>'
        f"{_prose(_COMMANDS)}"
        f"{''.join(sections)}<h2>schemas</h2>{''.join(schemas)}</body></html>"
    )


def _operation(
    document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]
) -> str:
    parameters = [_resolved(document, each) for each in operation.get("parameters", ())]
    body = operation.get("requestBody")
    parts = [
        f"<details><summary><b>{escape(method)}</b> <code>{escape(path)}</code>"
        f" {escape(operation['summary'])}</summary>",
        _prose(operation.get("description")),
        f"<pre><code>{escape(_command(method, path, parameters, body))}</code></pre>",
    ]
    if parameters:
        rows = (
            (
                f"<code>{escape(each['name'])}</code>",
                each["in"],
                _type(each["schema"]),
                "required" if each.get("required") else "",
                escape(each.get("description", "")),
            )
            for each in parameters
        )
        parts.append(_table(rows))
    if body is not None:
        parts.append(f"<p>Body: {_type(body['content']['application/json']['schema'])}</p>")
    responses = (
        (status, _resolved(document, each)) for status, each in operation["responses"].items()
    )
    answers = (
        (f"<b>{escape(status)}</b>", escape(answer["description"]), _content(answer))
        for status, answer in responses
    )
    return "".join((*parts, _table(answers), "</details>"))


def _command(
    method: str,
    path: str,
    parameters: Iterable[Mapping[str, Any]],
    body: Mapping[str, Any] | None,
) -> str:
    """The operation as it is called from a shell."""
    required = {
        each["name"]: each["schema"]
        for each in parameters
        if each.get("required") and each["in"] != "path"
    }
    query = "&".join(
        f"{name}={quote(schema.get('examples', [name.upper()])[0])}"
        for name, schema in required.items()
        if name.islower()
    )
    target = _PARAMETER.sub(lambda found: found[1].upper(), path) + (f"?{query}" if query else "")
    words = ["curl", *(() if method == "GET" else ("-X", method)), f'"$API{target}"']
    if "Idempotency-Key" in required:
        words.append('-H "Idempotency-Key: $RANDOM-$RANDOM"')
    if body is not None:
        (example,) = body["content"]["application/json"]["examples"].values()
        words.append("-H 'Content-Type: application/json'")
        words.append(f"-d {shlex.quote(json.dumps(example['value']))}")
    return " ".join(words)


def _content(answer: Mapping[str, Any]) -> str:
    return ", ".join(
        _type(content["schema"])
        + "".join(
            f"<br><code>{escape(json.dumps(each['value']))}</code>"
            for each in content.get("examples", {}).values()
        )
        for content in answer.get("content", {}).values()
    )


def _fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return _table(
        (
            f"<code>{escape(name)}</code>",
            _type(field),
            "required" if name in required else "",
            escape(field.get("description", "")),
        )
        for name, field in schema.get("properties", {}).items()
    )


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any")))


def _resolved(document: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in part:
        return part
    _, _, kind, name = part["$ref"].split("/")
    found: Mapping[str, Any] = document["components"][kind][name]
    return found


def _prose(text: str | None) -> str:
    return f"<pre>{escape(text.strip())}</pre>" if text else ""


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    cells = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
