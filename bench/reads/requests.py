"""What is asked of the list of jobs: every filter alone, and with every other."""

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Final
from urllib.parse import quote

from headgate.api.operations import PREFIX
from tests.contract.reading import Cost
from tests.contract.routes import Bound, Request

# A common value, a rare one, and one whose jobs are all old or that meets nothing.
FILTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "queue": ("q000", "rare", "retired"),
    "state": ("completed", "quarantined", "available"),
    "kind": ("mail:1", "rare", "retired"),
    "partition_key": ("t1", "nobody"),
    "tags_all": ("common", "rare", "left,right"),
    "tags_any": ("common,left", "rare,tenant:3"),
    "id": ("job000000007",),
    "prefix": ("mail", "rar", "retired"),
    "rate_class": ("class3", "none"),
    "fingerprint": ("hot", "cold"),
    "priority": ("0", "-17"),
}
_PARAMETERS: Final = {"queue", "state", "kind", "partition_key", "tags_all", "tags_any"}


SEARCHED: Final = Bound(0)
"""Instead of a bound: it depends on how the search went, see `bound_of`."""

INDEX: Final = Bound(1_200, "a page of each state")
KINDS: Final = Bound(4_000, "a page of each state of up to 100 kinds")
# An entry of a tag may take two descents: to its other tags, then to its job.
WINDOW: Final = Bound(26_000, "a window of 5,000 entries")


def bound_of(cost: Cost) -> Bound:
    """What a page of jobs may touch whose statements went this way."""
    if cost.windows:
        return WINDOW
    return KINDS if cost.kinds else INDEX


def lists(*, values: int) -> Iterator[Request]:
    """Lists of jobs with none, one and two filters, of which each takes its first `values`."""
    for target in ("/jobs", "/jobs?limit=200", "/jobs?cursor={middle}"):
        yield Request(PREFIX + target, SEARCHED)
    for name in FILTERS:
        for value in FILTERS[name]:
            yield _list((name, value))
            yield _list((name, value), "&cursor={middle}")
    for pair in combinations(FILTERS, 2):
        for both in product(*(FILTERS[name][:values] for name in pair)):
            yield _list(*zip(pair, both, strict=True))


def _list(*conditions: tuple[str, str] | str) -> Request:
    parameters, terms, rest = [], [], ""
    for condition in conditions:
        if isinstance(condition, str):
            rest = condition
            continue
        name, value = condition
        if name in _PARAMETERS:
            parameters.append(f"{name}={quote(value)}")
        else:
            terms.append(value if name == "prefix" else f"{name}:{value}")
    if terms:
        parameters.append("q=" + quote(" ".join(terms)))
    return Request(f"{PREFIX}/jobs?{'&'.join(parameters)}{rest}", SEARCHED)
