"""What all attempts of a worker share."""

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.store.store import Store
from headgate.worker.handling import Handlings
from headgate.worker.places import HandlerPlaces

if TYPE_CHECKING:
    from headgate.worker.attempt import Attempt


class Workbench:
    """Handlers, the places that they run in, and who hears of the end of an attempt."""

    def __init__(
        self,
        *,
        worker_id: str,
        store: Store,
        places: HandlerPlaces,
        lost: Callable[["Attempt"], None],
        settled: Callable[["Attempt"], None],
        ended: Callable[["Attempt"], None],
    ) -> None:
        self.worker_id = worker_id
        self.store = store
        self.places = places
        self.handlings = Handlings(places)
        self.telemetry = places.telemetry
        self.tasks = places.tasks
        self.lost = lost
        self.settled = settled
        self.ended = ended
        # An attempt may be started by the end of another, whose variables are none of its business.
        self.variables = contextvars.copy_context()
