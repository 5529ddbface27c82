"""What a worker holds: attempts that run, attempts taken ahead, and room for more."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from headgate.worker.attempt import Attempt
from headgate.worker.config import WorkerConfig
from headgate.worker.stop import Stop

_STALE_SECONDS: Final = 1.0
# Jobs that take no time are taken ahead in larger numbers than there are slots; anything that does
# real work is not, since all that a worker holds counts as crashed when it dies.
_SOON_SECONDS: Final = 0.02
_MANY: Final = 100
_RATE_WINDOW_SECONDS: Final = 0.5
_RATE_SAMPLE_SECONDS: Final = 0.005


class Rate:
    """How many attempts end per second, lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._ended = 0
        self.per_second = 0.0

    def count(self) -> None:
        self._ended += 1

    def update(self) -> None:
        """Takes what was counted into account, once enough time has passed to tell."""
        now = self._clock()
        elapsed = now - self._since
        if elapsed < _RATE_SAMPLE_SECONDS:
            return
        share = min(1.0, elapsed / _RATE_WINDOW_SECONDS)
        self.per_second += share * (self._ended / elapsed - self.per_second)
        self._since, self._ended = now, 0

    def forget(self) -> None:
        """What was measured holds no more."""
        self.per_second = 0.0
        self._since, self._ended = self._clock(), 0


class Slots:
    """Runs at most `concurrency` attempts and keeps a few more ready.

    An attempt is held from its claim until its report is settled; all of them are renewed. Taking
    ahead makes batches of what would be claims of one: by as many as start within `prefetch_ms`,
    and no more than `concurrency` unless they start within 20 ms. Handlers that turn out slower
    are found out within a second, and what waits for them goes back to the queue, where another
    worker may have room.
    """

    def __init__(self, config: WorkerConfig, *, rate: Rate | None = None) -> None:
        self._concurrency = config.concurrency
        self._horizon = min(config.prefetch_ms, config.lease_ms / 3) / 1000
        self._rate = rate or Rate()
        self._waiting: deque[Attempt] = deque()
        self._running: set[Attempt] = set()
        self._stale_check: asyncio.TimerHandle | None = None
        self._closed = False
        # Read by the heartbeat from its thread; each change of it is one operation.
        self.held: dict[str, Attempt] = {}
        self.room = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def running(self) -> frozenset[Attempt]:
        return frozenset(self._running)

    def wanted(self) -> int:
        """How many claims to ask for now; 0 until it is worth asking, then `room` is set."""
        self._rate.update()
        ahead = self._ahead()
        free = self._concurrency + ahead - len(self._running) - len(self._waiting)
        if free >= max(1, (ahead + 1) // 2):
            return free
        self.room.clear()
        return 0

    def take(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Holds these and starts what fits; the held ones whose job came back as another attempt.

        Those have lost their lease without knowing it yet.
        """
        replaced = []
        for attempt in attempts:
            previous = self.held.get(attempt.claim.job_id)
            if previous is not None:
                replaced.append(previous)
            self.held[attempt.claim.job_id] = attempt
            self._waiting.append(attempt)
        if self._closed:
            self._return_waiting()
        else:
            self._start_waiting()
        return replaced

    def ended(self, attempt: Attempt) -> None:
        """The attempt is over, its report is not settled."""
        if attempt in self._running:
            self._running.remove(attempt)
            self._rate.count()
            self._start_waiting()
        self.room.set()

    def settled(self, attempt: Attempt) -> None:
        """Nothing is left to be said about this attempt."""
        if self.held.get(attempt.claim.job_id) is attempt:
            del self.held[attempt.claim.job_id]

    def close(self) -> None:
        """Starts nothing more, and gives back what has not started."""
        self._closed = True
        self._return_waiting()

    def _ahead(self) -> int:
        per_second = self._rate.per_second
        most = max(self._concurrency, min(per_second * _SOON_SECONDS, _MANY))
        return int(min(per_second * self._horizon, most))

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._concurrency and not self._closed:
            attempt = self._waiting.popleft()
            if not attempt.ended:
                self._running.add(attempt)
                attempt.start()
        if self._waiting and self._stale_check is None:
            self._watch_waiting()
        if not self._running:
            self.idle.set()
        elif self.idle.is_set():
            self.idle.clear()

    def _watch_waiting(self) -> None:
        due = self._waiting[0].taken_at + _STALE_SECONDS - time.monotonic()
        loop = asyncio.get_running_loop()
        self._stale_check = loop.call_later(max(0.0, due), self._check_waiting)

    def _check_waiting(self) -> None:
        self._stale_check = None
        if not self._waiting:
            return
        if time.monotonic() - self._waiting[0].taken_at >= _STALE_SECONDS:
            self._rate.forget()
            self._return_waiting()
        else:
            self._watch_waiting()

    def _return_waiting(self) -> None:
        while self._waiting:
            self._waiting.popleft().abandon(Stop.RELEASED)
