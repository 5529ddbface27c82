"""Hooks of schedules: told of each attempt to take one up, and what became of its ticks."""

from collections.abc import Sequence

from headgate.model.periodic import Tick


class PeriodicHook:
    """To be derived from. Both methods are called once for each attempt, in the worker that has the
    scheduling duty, in the order of registration, and must not wait. What they raise is logged and
    has no effect.
    """

    def on_begin(self, schedule_id: str, due_ms: int) -> None:
        """A schedule is about to be taken up; its first tick was due at `due_ms`."""

    def on_end(self, schedule_id: str, ticks: Sequence[Tick]) -> None:
        """What was recorded of its ticks, and is written: nothing when another process was first,
        when a failure repeats itself, and when the store is away.
        """
