"""Modules become one script that does what they did."""

from graphlib import CycleError

import pytest

from headgate.api.console import ENTRY, ROOT
from headgate.api.javascript import joined

MODULES = {
    "main.js": """\
import { first as one, last } from "./kit.js";
import * as view from "./views/view.js";

view.show(one, last);
""",
    "kit.js": """\
export * from "./parts.js";
export const { first, last } = JSON.parse("{}");
""",
    "parts.js": """\
// Of which everything is made.
export async function ask() {}
export class Part {}
export const parts = [];
const own = 1;
""",
    "views/view.js": """\
import {
	ask,
} from "../kit.js";
export function show() {}
""",
    "nobody.js": "export default 1;",
}

SCRIPT = """\
const $ = {};
$["parts.js"] = (() => {
// Of which everything is made.
async function ask() {}
class Part {}
const parts = [];
const own = 1;

return { ask, Part, parts };
})();
$["kit.js"] = (() => {

const { first, last } = JSON.parse("{}");

return { ...$["parts.js"], first, last };
})();
$["views/view.js"] = (() => {
const {
	ask,
} = $["kit.js"];
function show() {}

return { show };
})();
$["main.js"] = (() => {
const { first: one, last } = $["kit.js"];
const view = $["views/view.js"];

view.show(one, last);

return {  };
})();
"""


def test_modules_come_after_those_they_import() -> None:
    assert joined("main.js", MODULES) == SCRIPT


@pytest.mark.parametrize(
    "statement",
    ["export default 1;", "export let one = 1;", 'import one from "./kit.js";',
     'import { one } from "elsewhere";', "export { one };", "import './kit.js';",
     "export const [one] = [1];", 'export { one } from "./kit.js";'],
)  # fmt: skip
def test_a_statement_that_is_not_understood_is_refused(statement: str) -> None:
    with pytest.raises(ValueError, match=r"one\.js: .* is not understood"):
        joined("one.js", {"one.js": f"{statement}\n", "kit.js": ""})


def test_a_circle_is_refused() -> None:
    circle = {"one.js": 'import { two } from "./two.js";', "two.js": 'export * from "./one.js";'}
    with pytest.raises(CycleError):
        joined("one.js", circle)


def test_an_import_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match=r"gone\.js"):
        joined("one.js", {"one.js": 'import { two } from "./gone.js";'})


def test_every_module_of_the_console_is_in_its_script() -> None:
    modules = {path.relative_to(ROOT).as_posix(): path.read_text() for path in ROOT.rglob("*.js")}
    script = joined(ENTRY, modules)
    assert {name for name in modules if f'$["{name}"] = ' not in script} == set()
