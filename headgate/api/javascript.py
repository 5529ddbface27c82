"""Modules of JavaScript as one script, for which a browser asks once.

Each becomes a function that returns what it exports, called after those of its imports. So its
lines stay as they were written, and its names its own. Understood is what such modules need, each
statement at the beginning of a line: `import {…}` and `import * as` of relative paths in double
quotes, `export * from` them, and `export` before a function, a class or a constant.
"""

import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from posixpath import dirname, join, normpath
from typing import Final

_FROM: Final = r'\s+from\s+"(?P<path>\.[^"]+)";$'
_IMPORT: Final = re.compile(
    rf"^import\s+(?P<names>\{{[^}}]*\}}|\*\s+as\s+\w+){_FROM}", re.MULTILINE
)
_EVERYTHING: Final = re.compile(rf"^export\s+\*{_FROM}", re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export\s+(?=(?:(?:async\s+)?function\*?|class|const)\s+(?P<names>\w+|\{[\w\s,]*\}))",
    re.MULTILINE,
)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def joined(entry: str, modules: Mapping[str, str]) -> str:
    """The script that does what the module `entry` does.

    `modules` are texts by path. Raises KeyError for an import of what is not there, ValueError for
    imports in a circle (graphlib.CycleError) and for statements that are not understood.
    """
    imports: dict[str, list[str]] = {}
    wanted = [entry]
    for name in wanted:
        imports[name] = list(_imports_of(name, modules[name]))
        wanted += [each for each in imports[name] if each not in wanted]
    order = TopologicalSorter(imports).static_order()
    return "".join(["const $ = {};\n", *(_function(name, modules[name]) for name in order)])


def _imports_of(name: str, text: str) -> Iterator[str]:
    for pattern in (_IMPORT, _EVERYTHING):
        for statement in pattern.finditer(text):
            yield _target(name, statement)


def _target(name: str, statement: re.Match[str]) -> str:
    return normpath(join(dirname(name), statement["path"]))


def _function(name: str, text: str) -> str:
    exports = [f'...$["{_target(name, each)}"]' for each in _EVERYTHING.finditer(text)]
    exports += [each["names"].strip("{ }") for each in _EXPORT.finditer(text)]
    text = _IMPORT.sub(lambda statement: _constants(name, statement), text)
    text = _EXPORT.sub("", _EVERYTHING.sub("", text))
    if left := _LEFT.search(text):
        raise ValueError(f"{name}: {left[0]} is not understood")
    return f'$["{name}"] = (() => {{\n{text}\nreturn {{ {", ".join(exports)} }};\n}})();\n'


def _constants(name: str, statement: re.Match[str]) -> str:
    names = re.sub(r"^\*\s+as\s+", "", statement["names"]).replace(" as ", ": ")
    return f'const {names} = $["{_target(name, statement)}"];'
