"""The worker: its parts put together, and the order in which they begin and end."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from msgspec.structs import replace

from headgate.client.application import Headgate
from headgate.duties.loop import Loop, all_loops
from headgate.duties.outage import OutageLog
from headgate.duties.runner import DutyRunner
from headgate.model.errors import StoreUnavailable
from headgate.model.job import Claim
from headgate.store.store import Store
from headgate.worker.acknowledgements import Acknowledgements
from headgate.worker.attempt import Attempt
from headgate.worker.config import WorkerConfig
from headgate.worker.coordinator import serve_workflows
from headgate.worker.custody import Custody
from headgate.worker.deaths import Deaths
from headgate.worker.ending import Ending
from headgate.worker.heartbeat import Heartbeat
from headgate.worker.loop import AdmissionLoop
from headgate.worker.memory import MemoryGuard
from headgate.worker.observation import Observation
from headgate.worker.places import HandlerPlaces
from headgate.worker.polling import PollWindow
from headgate.worker.presence import Presence, new_worker_id
from headgate.worker.relay import WorkflowRelay
from headgate.worker.shutdown import Shutdown
from headgate.worker.slots import Slots
from headgate.worker.startup import Startup

logger = logging.getLogger("headgate.worker")


class Worker:
    """Takes jobs of its queues and runs their handlers until it is told to stop.

    Every job that it takes is acknowledged, released, or taken back by the store when its lease
    ends: none is lost, and one may run twice.
    """

    def __init__(
        self,
        app: Headgate,
        store: Store,
        config: WorkerConfig | None = None,
        *,
        duties: Sequence[Loop] | None = None,
    ) -> None:
        """`duties` are all there are, unless given. The store stays the caller's to close."""
        serve_workflows(app)
        config = config or WorkerConfig()
        self.config = config if config.queues else replace(config, queues=app.queues)
        self.worker_id = config.worker_id or new_worker_id()
        self._app = app
        self._store = store
        self._outage = OutageLog(logger)
        self._observation = Observation(app.telemetry)
        self._shutdown = Shutdown()
        self._window = PollWindow()
        self._slots = Slots(self.config)
        self._places = HandlerPlaces(app, self.config)
        self._deaths = Deaths(app.death_handlers)
        self._relay = WorkflowRelay(store)
        self._startup = Startup(
            app, store, self.config, shutdown=self._shutdown, outage=self._outage
        )
        self._presence = Presence(
            self.config,
            worker_id=self.worker_id,
            slots=self._slots,
            window=self._window,
            observation=self._observation,
        )
        self._memory = MemoryGuard(
            limit_bytes=self.config.memory_limit_bytes,
            interval_ms=self.config.memory_check_ms,
            sampled=self._memory_sampled,
        )
        self._acknowledgements = Acknowledgements(
            store,
            settled=self._settled,
            outage=self._outage,
        )
        self._custody = Custody(
            store,
            worker_id=self.worker_id,
            places=self._places,
            lease_ms=self.config.lease_ms,
            slots=self._slots,
            acknowledgements=self._acknowledgements,
            unreported=lambda attempt: self._settled(attempt, None),
        )
        self._admission = AdmissionLoop(
            store,
            self.config,
            worker_id=self.worker_id,
            slots=self._slots,
            admitted=self._take,
            window=self._window,
            outage=self._outage,
        )
        self._heartbeat = Heartbeat(
            store.settings,
            lease_ms=self.config.lease_ms,
            held=self._slots.held,
            beat=self._presence.beat,
            lost=self._custody.lost,
            command=self.obey,
            failed=self._heart_failed,
            outage=self._outage,
        )
        self._ending = Ending(
            shutdown=self._shutdown,
            slots=self._slots,
            acknowledgements=self._acknowledgements,
            heartbeat=self._heartbeat,
            grace_ms=self.config.shutdown_grace_ms,
        )
        self._failure: BaseException | None = None
        self._duties = DutyRunner(
            store,
            all_loops(self.config.retention, app.periodic_hooks, on_event=app.telemetry.on_event)
            if duties is None
            else duties,
            self.worker_id,
            outage=self._outage,
        )

    async def run(self) -> None:
        """Works until `shutdown`, an operator's command or a cancellation, and ends in order.

        Waits for a database that is away, also at the start. Raises `StoreRefused`,
        `SchemaMissing` or `SchemaIncompatible` when it cannot work with this database, and
        `StoreUnavailable` at the end when reports could not be delivered: their jobs come back when
        their leases end. Raises `RegistrationError` when nobody has provided what a handler asks
        for, and for upcasts that lead nowhere. A cancellation releases at once what runs. May be
        called once.
        """
        if not await self._startup.ready():
            return
        self._app.bind(self._store)
        async with self._app.lifespan(self._app) if self._app.lifespan else nullcontext():
            self._app.check_complete()
            await self._run()

    async def _run(self) -> None:
        self._presence.begin()
        self._heartbeat.start()
        logger.info("worker %s takes jobs from %s", self.worker_id, ", ".join(self.config.queues))
        try:
            async with asyncio.TaskGroup() as group:
                await self._work(group)
        except BaseException as raised:
            self._shutdown.release()
            try:
                await self._ending.finish()
            except StoreUnavailable as error:
                logger.error("%s", error)
            if isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) == 1:
                raise raised.exceptions[0] from None
            raise
        else:
            await self._deaths.finish(self.config.shutdown_grace_ms)
            await self._ending.finish()
        finally:
            await self._relay.close()
            await self._places.close()
            logger.info("worker %s has ended", self.worker_id)

    @property
    def abandoned(self) -> int:
        """How many handlers were still running when their jobs were released."""
        return self._ending.abandoned

    @property
    def running(self) -> int:
        """How many handlers run."""
        return len(self._slots.running)

    @property
    def held(self) -> int:
        """How many jobs are this worker's: running, taken ahead, or waiting for their report."""
        return len(self._slots.held)

    def shutdown(self, *, now: bool = False) -> None:
        """Ends the worker: takes nothing more and waits for handlers up to `shutdown_timeout_ms`.

        With `now`, what runs is cancelled and its jobs are released at once, without a trace in
        their history. To be called on the worker's event loop; may be repeated.
        """
        if now:
            self._shutdown.release()
        else:
            self._shutdown.drain(self.config.shutdown_timeout_ms)

    def release(self, after_ms: int, then: Callable[[], None]) -> None:
        """The last resort for a worker whose event loop does not react: from its own thread, the
        heartbeat gives back everything after `after_ms` and calls `then`. From any thread.
        """
        self._heartbeat.release(after_ms, then)

    def quiet(self) -> None:
        """Takes no more jobs until `resume`; what runs goes on, and so do the duties."""
        self._admission.set_quiet(True)
        self._announce("quiet")

    def resume(self) -> None:
        """Takes jobs again."""
        self._admission.set_quiet(False)
        self._announce("running")

    def resign(self) -> None:
        """Hands the duties over to other workers, until this one is started anew."""
        self._presence.resigned.set()
        self._heartbeat.beat_soon()

    def obey(self, command: str) -> None:
        """Does what an operator asks through the store."""
        logger.info("worker %s is told to %s", self.worker_id, command)
        match command:
            case "quiet":
                self.quiet()
            case "resume":
                self.resume()
            case "resign":
                self.resign()
            case "terminate":
                self.shutdown()
            case "restart":
                self._announce("restarting")
                self._shutdown.drain(None)
            case _:
                logger.warning("unknown command %s", command)

    async def _work(self, group: asyncio.TaskGroup) -> None:
        admission = group.create_task(self._admission.run(), name="headgate admission")
        listening = group.create_task(self._admission.listen(), name="headgate listener")
        flushing = group.create_task(self._acknowledgements.run(), name="headgate flusher")
        duties = group.create_task(self._run_duties(), name="headgate duties")
        memory = group.create_task(self._memory.run(), name="headgate memory")
        looking = group.create_task(self._startup.warn_of_unknown_kinds(), name="headgate kinds")
        await self._shutdown.requested()
        if self._failure is not None:
            raise self._failure
        if self._presence.status != "restarting":
            self._announce("terminating")
        self._presence.resigned.set()
        self._admission.close()
        listening.cancel()
        memory.cancel()
        looking.cancel()
        await self._ending.drain(admission, flushing)
        await duties

    async def _run_duties(self) -> None:
        if self.config.duties:
            await self._duties.run_until(self._presence.resigned)

    def _announce(self, status: str) -> None:
        self._presence.status = status
        self._heartbeat.beat_soon()

    def _take(self, claims: Sequence[Claim]) -> None:
        self._observation.admitted(claims)
        self._custody.take(claims)

    def _settled(self, attempt: Attempt, state: str | None) -> None:
        """Nothing is left to be said of this attempt; its job went to `state`, if it counted.

        Runs for every job: who need not hear of it is not called.
        """
        self._slots.settled(attempt)
        self._admission.freed()
        if state is not None:
            if attempt.claim.headers:
                self._relay.settled(attempt.claim, state)
            if self._deaths.handlers and attempt.report is not None:
                self._deaths.settled(attempt.claim, attempt.report, state)
        if self._app.telemetry.listeners:
            self._observation.settled(attempt)

    def _memory_sampled(self, used_bytes: int, *, too_much: bool) -> None:
        self._observation.memory(
            self.worker_id, used_bytes, self.config.memory_limit_bytes, restart=too_much
        )
        if too_much:
            self.shutdown()

    def _heart_failed(self, raised: BaseException) -> None:
        """Without renewals every job here would be taken for crashed: better to end."""
        logger.error("the heartbeat has failed", exc_info=raised)
        self._failure = raised
        self._shutdown.release()
