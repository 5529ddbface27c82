"""Draws the state diagrams and the tables of `explanation/lifecycle.md` from the transition table.

`python docs/draw_lifecycle.py` rewrites what stands between the markers of that page and leaves the
prose alone.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from headgate.model.conditions import Condition
from headgate.model.lifecycle import DELETED, OPERATOR_ACTIONS, TRANSITIONS, State, Transition

PAGE: Final = Path(__file__).parent / "explanation" / "lifecycle.md"


def by_operator(transition: Transition) -> bool:
    return transition.event.startswith("operator_")


def diagram(transitions: Iterable[Transition]) -> str:
    arrows: dict[tuple[str, str], list[str]] = {}
    for transition in transitions:
        source = transition.source or "[*]"
        target = "[*]" if transition.target == DELETED else transition.target
        label = str(transition.event)
        if transition.when is not Condition.ALWAYS:
            label += f" ({transition.when})"
        arrows.setdefault((source, target), []).append(label)
    lines = [
        f"    {source} --> {target}: {', '.join(of)}" for (source, target), of in arrows.items()
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def edges() -> str:
    return table(
        ("from", "event", "to", "when", "counters"),
        (
            (
                t.source or "(new)",
                str(t.event),
                t.target,
                "" if t.when is Condition.ALWAYS else str(t.when),
                ", ".join(t.effects),
            )
            for t in TRANSITIONS
        ),
    )


def conditions() -> str:
    rules = ((str(c), c.rule) for c in Condition if c is not Condition.ALWAYS)
    return table(("condition", "holds when"), rules)


def actions() -> str:
    return table(
        ("action", "defined from"),
        (
            (str(action), ", ".join(state for state in State if state in states))
            for action, states in OPERATOR_ACTIONS.items()
        ),
    )


PARTS: Final[dict[str, Callable[[], str]]] = {
    "runs": lambda: diagram(t for t in TRANSITIONS if not by_operator(t)),
    "operators": lambda: diagram(t for t in TRANSITIONS if by_operator(t)),
    "edges": edges,
    "conditions": conditions,
    "actions": actions,
}


def drawn(page: str) -> str:
    """`page` with every part between its two markers drawn anew."""
    for name, draw in PARTS.items():
        start, end = f"<!-- {name}: generated -->\n", f"<!-- {name}: end -->"
        before, rest = page.split(start)
        _, after = rest.split(end)
        page = f"{before}{start}{draw()}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
