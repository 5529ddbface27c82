"""How long a person waits for each view of the console."""

from collections.abc import Mapping
from typing import Any, Final

from bench.report import Figure, compare
from tests.console.browser import launched
from tests.console.screen import Screen

_Path = tuple[tuple[str, ...], Mapping[str, str]]

VIEWS: Final[Mapping[str, _Path]] = {
    "overview": ((), {}),
    "overview of a week": ((), {"range": "7d"}),
    "jobs": (("jobs",), {}),
    "jobs of a state": (("jobs",), {"state": "completed"}),
    "jobs of a queue": (("jobs",), {"queue": "q000"}),
    "jobs of a kind and a state": (("jobs",), {"kind": "mail:1", "state": "available"}),
    "jobs of two tags that never meet": (("jobs",), {"tags_all": "left,right"}),
    "a finished job": (("jobs", "job000000999"), {}),
    "queues": (("queues",), {}),
    "a queue": (("queues", "q000"), {}),
    "schedules": (("periodic",), {}),
    "a schedule": (("periodic", "schedule-0"), {}),
    "workers": (("workers",), {}),
    "policies": (("policies",), {}),
    "quarantine": (("quarantine",), {}),
    "operations": (("operations",), {}),
    "workflows": (("workflows",), {}),
    "audit": (("audit",), {}),
}

# Resolves once the API has answered for the address and the answer is shown.
_SHOWN: Final = """
() => new Promise(resolve => {
  const look = () => {
    const main = document.querySelector("main");
    if (main?.dataset.address !== location.hash || !(main.dataset.looks > 0)) return;
    observer.disconnect();
    resolve(performance.now());
  };
  const observer = new MutationObserver(look);
  observer.observe(document, { subtree: true, childList: true, attributes: true });
  look();
})
"""
_COME_TO: Final = f"""
async hash => {{
  const begun = performance.now();
  location.hash = hash;
  return await ({_SHOWN})() - begun;
}}
"""


async def opened_ms(browser: Any, site: str, view: _Path) -> tuple[float, float]:
    """Milliseconds from the address being typed, and from the link being pressed."""
    path, query = view
    async with Screen.opened(browser, site) as screen:
        address = screen.address(*path, **query)
        await screen.page.goto(address, wait_until="commit")
        cold = await screen.page.evaluate(_SHOWN)
        await screen.go("enqueue")
        again = await screen.page.evaluate(_COME_TO, address.partition("#")[2])
        screen.assert_clean()
        return cold, again


async def measure(browser: str, many: str, few: str, *, rounds: int) -> list[Figure]:
    figures = []
    async with launched(browser) as running:
        for name, view in VIEWS.items():
            # The first time is that of the server, whose connections and plans are fresh.
            for site in (many, few):
                await opened_ms(running, site, view)
            ours, other = [], []
            for _ in range(rounds):
                ours.append(await opened_ms(running, many, view))
                other.append(await opened_ms(running, few, view))
            for at, what in enumerate(("opened, ms", "come to, ms")):
                sides = [[times[at] for times in side] for side in (ours, other)]
                figures.append(compare(f"{name}, {what}", *sides, less_is_better=True))
    return figures
