"""The cases of `cases.yaml`: filling in values, comparing answers, telling what is pending."""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from starlette.routing import Match

from headgate.api.operations import PREFIX, Operation
from headgate.api.routing import RawRoute
from tests.contract.client import Answer

FILE: Final = Path(__file__).with_name("cases.yaml")
MISSING: Final = object()


class Case(msgspec.Struct, kw_only=True, frozen=True):
    id: str
    title: str
    steps: list[dict[str, Any]]
    group: str = ""
    config: dict[str, Any] = {}
    needs: list[str] = []


def read_cases() -> list[Case]:
    groups = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    return [
        Case(group=group["group"], config=group.get("config", {}), **case)
        for group in groups
        for case in group["cases"]
    ]


def filled(value: Any, saved: Mapping[str, Any], token: str) -> Any:
    """`value` with tokens, saved values and generated contents in their place."""
    if isinstance(value, str):
        text = value.replace("$U", token)
        return re.sub(r"\$\{(\w+)\}", lambda match: str(saved[match[1]]), text)
    if isinstance(value, list):
        return [filled(each, saved, token) for each in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$b64": text}:
            return base64.b64encode(filled(text, saved, token).encode()).decode()
        case {"$b64_fill": size}:
            return base64.b64encode(bytes(size)).decode()
        case {"$repeat": [each, count]}:
            return [filled(each, saved, token)] * count
    return {name: filled(each, saved, token) for name, each in value.items()}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "int": lambda value: is_number(value) and isinstance(value, int),
    "num": is_number,
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "map": lambda value: isinstance(value, dict),
}


def matches(wanted: Any, found: Any, *, whole: bool) -> bool:
    """Whether `found` is what `wanted` says; with `whole` nothing else may be there."""
    if isinstance(wanted, dict):
        if len(wanted) == 1 and next(iter(wanted)).startswith("$"):
            return satisfies(wanted, found, whole=whole)
        return (
            isinstance(found, dict)
            and all(matches(each, found.get(n, MISSING), whole=whole) for n, each in wanted.items())
            and (not whole or set(found) <= set(wanted))
        )
    if isinstance(wanted, list):
        if not isinstance(found, list):
            return False
        if whole:
            return len(wanted) == len(found) and all(
                matches(one, other, whole=True) for one, other in zip(wanted, found, strict=True)
            )
        some = all(any(matches(one, other, whole=False) for other in found) for one in wanted)
        return some and (bool(wanted) or not found)
    if is_number(wanted) and is_number(found):
        return bool(wanted == found)
    return type(wanted) is type(found) and bool(wanted == found)


def satisfies(matcher: Mapping[str, Any], found: Any, *, whole: bool) -> bool:
    ((name, wanted),) = matcher.items()
    if name == "$absent":
        return found is MISSING
    match name:
        case "$re":
            return isinstance(found, str) and re.fullmatch(wanted, found, re.S) is not None
        case "$type":
            return TYPES[wanted](found)
        case "$gte":
            return is_number(found) and bool(found >= wanted)
        case "$len":
            return isinstance(found, list) and len(found) == wanted
        case "$contains":
            return isinstance(found, list) and any(
                matches(wanted, each, whole=whole) for each in found
            )
        case "$mod":
            return TYPES["int"](found) and found % wanted[0] == wanted[1]
        case "$set":
            return isinstance(found, str) and {x.strip() for x in found.split(",")} == set(wanted)
    raise AssertionError(f"no such matcher: {name}")


def complaint(expected: Mapping[str, Any], answer: Answer) -> str | None:
    """What is wrong with `answer`, or None."""
    statuses = expected["status"]
    if answer.status not in (statuses if isinstance(statuses, list) else [statuses]):
        return f"status {answer}, not {statuses}"
    for name, wanted in expected.get("headers", {}).items():
        found = answer.headers.get(name, MISSING)
        if not matches(wanted, found, whole=True):
            return f"header {name}: {found}"
    if expected.get("body") == "empty" and answer.body:
        return f"body {answer}"
    if "text" in expected and answer.body.decode() != expected["text"]:
        return f"text {answer}"
    for name in {"json", "subset"} & set(expected):
        if not matches(expected[name], answer.json(), whole=name == "json"):
            return f"body {answer}, not {expected[name]}"
    for unwanted in expected.get("none", ()):
        if any(matches(unwanted, each, whole=False) for each in answer.json()):
            return f"an element like {unwanted}"
    return None


class Routes:
    """Which requests of the cases lead somewhere, by the route table."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        methods: dict[str, set[str]] = {}
        for operation in operations:
            methods.setdefault(operation.path, set()).add(operation.method)
        self._methods = {
            path: found | ({"HEAD"} if "GET" in found else set()) for path, found in methods.items()
        }
        # As the router has it, a literal goes before a parameter.
        self._routes = sorted(
            (RawRoute(path, _nowhere) for path in methods),
            key=lambda route: [segment.startswith(b"{") for segment in route.segments],
        )

    def missing(self, case: Case) -> set[str]:
        """The routes that `case` needs and that do not exist."""
        found = set()
        for step in case.steps:
            inner = [step, *step.get("sse", {}).get("during", ())]
            for each in inner:
                if "request" in each:
                    found |= self._missing(case, each["request"], each["expect"])
            if "sse" in step:
                expected = {"status": 200}
                found |= self._missing(
                    case, {"method": "GET", "path": step["sse"]["path"]}, expected
                )
        return found

    def _missing(
        self, case: Case, request: Mapping[str, Any], expected: Mapping[str, Any]
    ) -> set[str]:
        method = request["method"]
        path = request["path"].partition("?")[0]
        scope = {"type": "http", "raw_path": path.encode("latin-1"), "path": path}
        methods = next(
            (
                self._methods[route.path]
                for route in self._routes
                if route.matches(scope)[0] is not Match.NONE
            ),
            None,
        )
        if methods is None:
            unknown_on_purpose = expected["status"] == 404 and expected.get("body") == "empty"
            return set() if unknown_on_purpose else {f"{method} {shortened(path)}"}
        allowed = set(expected.get("headers", {}).get("allow", {}).get("$set", ()))
        absent = {f"{each} {shortened(path)}" for each in allowed - methods}
        refused_before = (
            expected["status"] == 405
            or ("key" in request and not request["key"])
            or case.config.get("read_only")
        )
        if method not in methods and not refused_before:
            absent.add(f"{method} {shortened(path)}")
        return absent


def shortened(path: str) -> str:
    return path.removeprefix(PREFIX)


async def _nowhere(*_: Any) -> None:
    raise AssertionError("only matched")
