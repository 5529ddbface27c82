"""Every statement there is, in every shape: it compiles for any schema, once and for all."""

import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import msgspec
import pytest
from sqlalchemy import Executable

import headgate.queries
from headgate.model.envelope import Envelope
from headgate.model.job import JobFilter
from headgate.model.lifecycle import OperatorAction, State
from headgate.model.month import Month
from headgate.queries.enqueue import INPUTS, REQUIRED
from headgate.queries.enqueue_lane import FITTING
from headgate.queries.lanes import LANE
from headgate.queries.retention import RECORDS
from headgate.store.compilation import Compiled, Compiler
from headgate.tables import metadata

ODD_SCHEMA = "billing jobs"

Build = Callable[..., Executable]
Shape = dict[str, Any]


def _sets(names: set[str], *alone: str) -> list[frozenset[str]]:
    """None of the names, some alone, all together."""
    return [frozenset(), *(frozenset({name}) for name in alone), frozenset(names)]


_OPTIONAL_INPUTS = set(INPUTS) - REQUIRED
_FILTERS = set(JobFilter.__struct_fields__) - {"state"}
_DRIVERS = ("id", "tag", "tags_any", "fingerprint", "kind", "kinds", "queue")

# What a parameter takes, by its type, and by its builder where the type does not say enough.
_BY_TYPE: dict[Any, list[Any]] = {
    bool: [False, True],
    str: ["headgate_wakeup"],
    str | None: [None, State.AVAILABLE],
    State: list(State),
    tuple[State, ...]: [tuple(State), (State.AVAILABLE,)],
    OperatorAction: list(OperatorAction),
    frozenset[str]: [frozenset()],
    Month: [Month(2026, 11)],
    tuple[tuple[str, str], ...]: [(("jit", "off"),)],
}
_BY_BUILDER: dict[tuple[str, str], list[Any]] = {
    ("insert_jobs", "given"): _sets(_OPTIONAL_INPUTS, "unique_key"),
    ("insert_jobs", "shared"): [frozenset(), frozenset({"kind", "queue"})],
    ("insert_in_lane", "given"): _sets(set(FITTING) - REQUIRED, "unique_key"),
    ("insert_in_lane", "shared"): [FITTING, frozenset({"kind", *LANE})],
    ("page_of_jobs", "driver"): [None, *_DRIVERS],
    ("page_of_jobs", "others"): _sets(_FILTERS - {"id"}),
    ("stream_sizes", "drivers"): [_DRIVERS[1:]],
    ("prune", "name"): list(RECORDS),
    ("amend_holder", "replace"): list(range(16)),
    ("enter_available", "action"): [OperatorAction.PROMOTE, OperatorAction.RETRY],
}


def builders() -> Iterator[tuple[str, Build]]:
    """The functions that hand out a cached statement, with the module that defines them."""
    for module in pkgutil.walk_packages(headgate.queries.__path__, "headgate.queries."):
        loaded = importlib.import_module(module.name)
        for name, found in vars(loaded).items():
            if hasattr(found, "cache_info") and found.__module__ == module.name:
                yield f"{module.name.removeprefix('headgate.queries.')}.{name}", found


def shapes(name: str, build: Build) -> Iterator[Shape]:
    """Every combination of arguments that makes a shape of its own."""
    hints = get_type_hints(build)
    choices: dict[str, list[Any]] = {}
    for parameter in inspect.signature(build).parameters:
        key = (name.rpartition(".")[2], parameter)
        choices[parameter] = _BY_BUILDER.get(key) or _BY_TYPE[hints[parameter]]
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


BUILDERS = dict(builders())

_OBJECTS = "|".join([*(table.name for table in metadata.tables.values()), "headgate_state"])
_CAST_STATE = re.compile(r"state(?: AS TEXT\)|::text)\s*(?:=|<|>|IN\b|!)", re.IGNORECASE)
_BOUND_STATE = re.compile(r"\bstate\s*(?:=|<>|!=)\s*\$\d")
# Behind OF stands the name that the statement gives the table.
_UNQUALIFIED = re.compile(rf"(?<![\w.])(?<!OF )({_OBJECTS})\b")


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_every_shape_compiles_for_every_schema(name: str) -> None:
    build = BUILDERS[name]
    for shape in shapes(name, build):
        for schema in ("public", ODD_SCHEMA):
            sql = Compiled(build(**shape), schema).sql
            told = f"{name} {shape}"
            assert "POSTCOMPILE" not in sql, told
            assert "SCHEMA__" not in sql, told
            assert not _UNQUALIFIED.search(sql), told
            quoted = '"billing jobs"' if schema == ODD_SCHEMA else "public"
            assert set(re.findall(r'("[^"]*"|\w+)\.headgate_\w+', sql)) <= {quoted}, told
            # A cast or a parameter would hide the state from partial indexes.
            assert not _CAST_STATE.search(sql), told
            assert not _BOUND_STATE.search(sql), told


_NEW_JOBS = "INSERT INTO public.headgate_job ("
_CHANGED_JOBS = "UPDATE public.headgate_job SET "


def assignments(sql: str) -> list[str]:
    """What the updates of jobs in a statement set, without the rows that they are for."""
    return [_outermost(part) for part in sql.split(_CHANGED_JOBS)[1:]]


def _outermost(text: str) -> str:
    """The text up to the end of the clause that it begins in."""
    depth = 0
    for found in re.finditer(r"[()]| (?:FROM|WHERE|RETURNING) ", text):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth < 0 or (depth == 0 and found[0] not in "()"):
            return text[: found.start()]
    return text


def every_statement() -> Iterator[tuple[str, str]]:
    """The name of each builder with the text of each of its shapes."""
    for name, build in BUILDERS.items():
        for shape in shapes(name, build):
            yield name, " ".join(Compiled(build(**shape), "public").sql.split())


def test_every_way_into_available_registers_the_lane() -> None:
    ways = set()
    for name, sql in every_statement():
        if _NEW_JOBS in sql or any("'available'" in sets for sets in assignments(sql)):
            ways.add(name)
            assert "headgate_active_partition" in sql, name
    assert ways >= {
        "enqueue.insert_jobs",
        "enqueue_lane.insert_in_lane",
        "outcomes.conclude",
        "operators.enter_available",
        "promotion.promote_due",
    }


def test_every_way_out_of_running_gives_back_all_that_a_claim_took() -> None:
    """The table itself sees to it that only what runs has a lease."""
    ways = set()
    for name, sql in every_statement():
        for sets in assignments(sql):
            if "lease_id=NULL" in sets:
                ways.add(name)
                taken = ("lease_expires_at_ms=NULL", "claimed_by=NULL", "rate_charge=0")
                assert all(each in sets for each in taken), name
    assert ways >= {
        "outcomes.succeed",
        "outcomes.conclude",
        "reclaim.reclaim",
        "operators.cancel_jobs",
    }


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_the_same_shape_is_the_same_statement(name: str) -> None:
    build = BUILDERS[name]
    shape = next(iter(shapes(name, build)))
    compile_statement = Compiler("public")
    assert build(**shape) is build(**shape)
    assert compile_statement(build(**shape)) is compile_statement(build(**shape))


def test_parameters_are_put_in_order_and_none_is_forgotten() -> None:
    compiled = Compiled(BUILDERS["duties.claim_duty"](), "public")
    given = {"duty_name": "reclaimer", "duty_holder": "me", "lease_ms": 5}
    assert sorted(map(str, compiled.arguments(given))) == ["5", "me", "reclaimer"]
    with pytest.raises(KeyError, match="lease_ms"):
        compiled.arguments({"duty_name": "reclaimer", "duty_holder": "me"})


def test_a_default_is_kept_and_none_is_a_value() -> None:
    compiled = Compiled(BUILDERS["wakeups.notify"]("channel"), "public")
    assert compiled.arguments({"queues": ["q"]}) == ["channel", ["q"]]
    compiled = Compiled(BUILDERS["workers.signal"](), "public")
    assert None in compiled.arguments({"beat_worker_id": "w", "new_command": None})


def test_inputs_cover_the_envelope() -> None:
    amending = {"unique_replace", "unique_exclude_kind"}
    fields = {field.name for field in msgspec.structs.fields(Envelope)}
    assert set(INPUTS) == fields - amending
