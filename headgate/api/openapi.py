"""The OpenAPI 3.1 document, made from the operations and the structs they read and answer with.

The struct of a body may bring an `example` of it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import json as msgspec_json

from headgate.api.answers import IDEMPOTENCY_KEY, SHARED, shared_answers
from headgate.api.operations import REPLAYED, Answer, Operation
from headgate.api.wire import NARROWER, U64
from headgate.model.access import GRANTS, Role

_REFERENCE: Final = "#/components/schemas/{name}"

_DESCRIPTION: Final = """\
The control API of Headgate.

- Names in a path are one segment each and may hold any character, percent-encoded (`%2F` for a
  slash). Paths are not cleaned: a trailing or doubled slash is another path.
- An unknown path is answered 404 and an unknown method 405, both with an empty body; every other
  refusal has the body `{"error": ...}`.
- POST, PUT and DELETE need the header `Idempotency-Key`.
- All instants are milliseconds since the epoch on the clock of the database.
- What a request is refused for first: path, who asks, read-only mode, role, Idempotency-Key,
  method, path parameters, query, body, and then what the operation itself demands.
- Where access is on, `x-roles` names the roles that may call an operation.
- A repeated mutation with the same Idempotency-Key acts once: for 24 hours it is answered as the
  first one was, success or refusal, with the header `idempotency-replayed`.
- HEAD works wherever GET does. Unknown query parameters and unknown fields of a body are ignored.
"""


def build_document(
    operations: Sequence[Operation], version: str, server: str = "/"
) -> dict[str, Any]:
    """The whole document. `server` is what stands before the paths, for a mounted application."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headgate control API",
            "version": version,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server}],
        "tags": [{"name": name} for name in dict.fromkeys(each.subject for each in operations)],
        "paths": paths,
        "components": {
            "schemas": _schemas(operations),
            "responses": {answer.name: _response([answer]) for answer in SHARED},
            "parameters": {"IdempotencyKey": IDEMPOTENCY_KEY},
            "headers": {
                "RequestId": {
                    "description": "Names this request in the log.",
                    "schema": {"type": "string"},
                },
                "Replayed": {
                    "description": "`true` on an answer that is given again.",
                    "schema": {"type": "string", "enum": ["true"]},
                },
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    summary, _, description = (operation.handler.__doc__ or "").partition("\n")
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.subject],
        "summary": summary.rstrip("."),
    }
    if description.strip():
        described["description"] = re.sub(r"\n[ ]+", "\n", description).strip()
    if not operation.public:
        # Nobody is asked where access is off, which is what the empty alternative says.
        described["security"] = [{}, {"token": []}]
        described["x-roles"] = [
            role.value for role in Role if not GRANTS[role].isdisjoint(operation.roles)
        ]
    parameters = list(_parameters(operation))
    if parameters:
        described["parameters"] = parameters
    if operation.body_type is not None:
        content = {"schema": _schema(operation.body_type)}
        example = getattr(operation.body_type, "example", None)
        if example is not None:
            content["examples"] = {"example": {"value": example}}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    described["responses"] = {
        str(status): _response_or_reference(answers)
        for status, answers in sorted(_answers(operation).items())
    }
    if operation.replays:
        for status, response in described["responses"].items():
            if status < "300":
                response["headers"][REPLAYED] = {"$ref": "#/components/headers/Replayed"}
    return described


def _response_or_reference(answers: Sequence[Answer]) -> dict[str, Any]:
    shared = len(answers) == 1 and answers[0].name
    if shared:
        return {"$ref": f"#/components/responses/{shared}"}
    return _response(answers)


def _parameters(operation: Operation) -> Iterable[dict[str, Any]]:
    if operation.mutates:
        yield {"$ref": "#/components/parameters/IdempotencyKey"}
    for name in operation.path_parameters:
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
    if operation.query_type is None:
        return
    (_, schemas) = msgspec_json.schema_components(
        [operation.query_type], schema_hook=_foreign_type, ref_template=_REFERENCE
    )
    struct = _narrowed(schemas[operation.query_type.__name__])
    for name, schema in struct["properties"].items():
        # A parameter that is absent is not null: there is no way to send that.
        schema = _without_null(schema)
        parameter = {"name": name, "in": "query", "required": name in struct.get("required", ())}
        if "description" in schema:
            parameter["description"] = schema.pop("description")
        yield {**parameter, "schema": schema}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if rest.get("default", 0) is None:
        del rest["default"]
    for choice in schema.get("anyOf", ()):
        if choice != {"type": "null"}:
            rest = {**choice, **rest}
    return rest


def _answers(operation: Operation) -> dict[int, list[Answer]]:
    """The answers by status; those of the operation itself before the shared ones."""
    answers: dict[int, list[Answer]] = {}
    for answer in (*operation.answers, *shared_answers(operation)):
        answers.setdefault(answer.status, []).append(answer)
    return answers


def _response(answers: Sequence[Answer]) -> dict[str, Any]:
    headers = {
        "x-request-id": {"$ref": "#/components/headers/RequestId"},
        **{
            name: {"description": text, "schema": {"type": "string"}}
            for answer in answers
            for name, text in answer.headers.items()
        },
    }
    response: dict[str, Any] = {
        "description": " ".join(dict.fromkeys(answer.description for answer in answers)),
        "headers": headers,
    }
    links = {
        name: {"operationId": operation, "parameters": dict(parameters)}
        for answer in answers
        for name, (operation, parameters) in answer.links.items()
    }
    if links:
        response["links"] = links
    with_body = [answer for answer in answers if answer.body is not None]
    if with_body:
        schemas: list[dict[str, Any]] = []
        examples: dict[str, Any] = {}
        for answer in with_body:
            schema = _schema(answer.body)
            schemas += (each for each in schema.get("anyOf", [schema]) if each not in schemas)
            examples |= {
                name: {"value": msgspec.to_builtins(value)}
                for name, value in answer.examples.items()
            }
        content: dict[str, Any] = {
            "schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        }
        if examples:
            content["examples"] = examples
        response["content"] = {with_body[0].media_type: content}
    return response


def _schemas(operations: Sequence[Operation]) -> dict[str, Any]:
    """The schemas of all bodies. What has a default may be left out by a caller; we never do."""
    asked = [each.body_type for each in operations if each.body_type is not None]
    answers = (*SHARED, *(answer for each in operations for answer in each.answers))
    told = list(dict.fromkeys(answer.body for answer in answers if answer.body is not None))
    schemas = {}
    for kinds, ours in ((asked, False), (told, True)):
        _, components = msgspec_json.schema_components(
            kinds, schema_hook=_foreign_type, ref_template=_REFERENCE
        )
        for name, schema in components.items():
            schemas[name] = _always_complete(_narrowed(schema)) if ours else _narrowed(schema)
    return dict(sorted(schemas.items()))


def _always_complete(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        **schema,
        "properties": {
            name: {key: value for key, value in field.items() if key != "default"}
            for name, field in properties.items()
        },
        "required": [n for n, field in properties.items() if n in required or "default" in field],
    }


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec_json.schema_components(
        [kind], schema_hook=_foreign_type, ref_template=_REFERENCE
    )
    narrowed: dict[str, Any] = _narrowed(schema)
    return narrowed


def _foreign_type(kind: type) -> dict[str, Any]:
    if kind is U64:
        return {"type": "integer", "minimum": 0, "maximum": U64.maximum}
    raise NotImplementedError


def _narrowed(schema: Any) -> Any:
    """`schema` with the keywords of `narrower` in their place, wherever they stand."""
    if isinstance(schema, list):
        return [_narrowed(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    rest = {key: _narrowed(value) for key, value in schema.items() if key != NARROWER}
    return {**rest, **schema.get(NARROWER, {})}
