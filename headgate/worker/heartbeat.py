"""Keeps leases alive and the registry informed, from a thread that handlers cannot hold up.

The thread has an event loop and a connection of its own. A handler that blocks the worker's event
loop, or a pool that is exhausted, costs no lease; only a process that does not get to run Python at
all does (an extension that holds the interpreter's lock, a stopped process).
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Final

import msgspec

from headgate.duties.outage import Backoff, OutageLog
from headgate.model.errors import StoreError, StoreUnavailable
from headgate.model.job import Acknowledgement, Lease, WorkerBeat
from headgate.model.lifecycle import Outcome
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.worker.attempt import Attempt
from headgate.worker.verdicts import RELEASED

_MIN_INTERVAL_MS: Final = 10
_FIRST_RETRY_MS: Final = 250
_MIN_STATEMENT_MS: Final = 1_000
_BLOCKED_SECONDS: Final = 1.0
_RELEASE_SECONDS: Final = 0.8
_STACK_FRAMES: Final = 6

logger = logging.getLogger("headgate.worker")


class Heartbeat:
    """Renews what the worker holds, every third of its lease, and writes the worker's row.

    What it learns it reports to the worker's event loop: jobs whose lease is lost, commands of an
    operator, and its own end when that was not asked for.
    """

    def __init__(
        self,
        settings: StoreSettings,
        *,
        lease_ms: int,
        held: Mapping[str, Attempt],
        beat: Callable[[], WorkerBeat],
        lost: Callable[[Lease], None],
        command: Callable[[str], None],
        failed: Callable[[BaseException], None],
        outage: OutageLog,
    ) -> None:
        self._interval_ms = max(lease_ms / 3, _MIN_INTERVAL_MS)
        self._settings = msgspec.structs.replace(
            settings,
            pool_size=1,
            notify=False,
            # A statement that hangs must leave time for another try within the lease.
            statement_timeout_ms=min(
                settings.statement_timeout_ms, max(int(self._interval_ms), _MIN_STATEMENT_MS)
            ),
        )
        self._held = held
        self._beat = beat
        self._lost = lost
        self._command = command
        self._failed = failed
        self._outage = outage
        self._failing = Backoff(_FIRST_RETRY_MS / 2, self._interval_ms)
        self._early = asyncio.Event()
        self._stopping = False
        self._taken = True
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._store: Store
        # The event loop that is served, and since when it owes an answer.
        self._watched: asyncio.AbstractEventLoop
        self._watched_thread = 0
        self._asked_at = 0.0
        self._answered_at = 0.0
        self._complained_at = 0.0

    def start(self) -> None:
        """Begins to beat, for the event loop that calls this."""
        self._watched = asyncio.get_running_loop()
        self._watched_thread = threading.get_ident()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="headgate heartbeat", daemon=True)
        self._thread.start()

    def beat_soon(self) -> None:
        """Beats now instead of at the end of the interval. From any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._early.set)

    async def stop(self, limit_ms: int) -> bool:
        """Leaves the registry and ends, within the limit; false when the store is away."""
        if self._thread is not None:
            self._stopping = True
            self.beat_soon()
            await asyncio.to_thread(self._thread.join, limit_ms / 1000)
        return self._taken

    def release(self, after_ms: int, then: Callable[[], None]) -> None:
        """Gives back everything held after `after_ms`, and calls `then`. From any thread.

        For a worker whose event loop may be blocked for good: reports that are ready are sent, the
        other attempts are released.
        """
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._release(after_ms, then), self._loop)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._beat_until_stopped())
        except BaseException as raised:
            self._tell(self._failed, raised)

    async def _beat_until_stopped(self) -> None:
        async with await Store.open(self._settings) as store:
            self._store = store
            while True:
                stopping = self._stopping
                self._early.clear()
                begun = time.monotonic()
                self._watch(begun)
                pause_ms = await self._beat_patiently(store, leaving=stopping)
                if stopping:
                    return
                # A late beat moves the next one; they never bunch up.
                left = begun + pause_ms / 1000 - time.monotonic()
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, left)):
                        await self._early.wait()

    async def _beat_patiently(self, store: Store, *, leaving: bool) -> float:
        """One beat, or the goodbye. How long after its begin the next is due, in milliseconds."""
        try:
            if leaving:
                await store.workers.leave(self._beat().worker_id)
            else:
                await self._beat_once(store)
        except StoreUnavailable as error:
            self._taken = False
            self._outage.failed("heartbeat", error)
            return self._failing.next_ms()
        except StoreError:
            self._taken = False
            logger.exception("heartbeat failed")
            return self._interval_ms
        self._taken = True
        self._outage.succeeded()
        self._failing.reset()
        return self._interval_ms

    async def _beat_once(self, store: Store) -> None:
        try:
            await self._renew(store)
        finally:
            # An operator must reach the worker also when renewals fail.
            command = await store.workers.heartbeat(self._beat())
            if command is not None:
                self._tell(self._command, command)

    async def _renew(self, store: Store) -> None:
        leases: dict[int, list[Lease]] = {}
        for attempt in tuple(self._held.values()):
            leases.setdefault(attempt.lease_ms, []).append(attempt.lease)
        for lease_ms, held in leases.items():
            # In one order everywhere: an acknowledgement may be changing the same rows.
            held.sort(key=attrgetter("job_id"))
            lost = frozenset(await store.leases.renew(held, lease_ms))
            for lease in held if lost else ():
                if lease.job_id in lost:
                    self._tell(self._lost, lease)

    def _watch(self, now: float) -> None:
        """Says once when the worker's event loop has not run for a second or more."""
        if self._asked_at <= self._answered_at:
            self._asked_at = now
            self._tell(self._answer)
        elif now - self._asked_at >= _BLOCKED_SECONDS and self._asked_at != self._complained_at:
            self._complained_at = self._asked_at
            frame = sys._current_frames().get(self._watched_thread)
            where = "".join(traceback.format_stack(frame, limit=_STACK_FRAMES))
            logger.warning(
                "a handler blocks the event loop for %d s; a plain `def` would run in a thread\n%s",
                now - self._asked_at,
                where,
            )

    def _answer(self) -> None:
        self._answered_at = time.monotonic()

    def _tell(self, receiver: Callable[..., None], *arguments: object) -> None:
        # The loop may be closed already: then nobody has to know.
        with suppress(RuntimeError):
            self._watched.call_soon_threadsafe(receiver, *arguments)

    async def _release(self, after_ms: int, then: Callable[[], None]) -> None:
        await asyncio.sleep(after_ms / 1000)
        try:
            reports = [
                attempt.report
                or Acknowledgement(
                    lease=attempt.lease, outcome=Outcome.RATE_LIMITED, error=RELEASED
                )
                for attempt in tuple(self._held.values())
            ]
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._store.leases.acknowledge(reports)
        except (StoreError, TimeoutError) as error:
            logger.error("leases could not be given back: %s", error)
        finally:
            then()
