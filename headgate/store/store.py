"""The store: what may be asked of PostgreSQL, port by port.

The hot path (enqueue, admit, acknowledge, renew) has statements that an index serves in every
part, and connections whose settings keep their plans that way; reads have connections of their
own, so that no search waits in front of a worker.
"""

from copy import copy
from typing import Final, Self

from headgate.store.access_tokens import AccessTokens
from headgate.store.archive import Archive
from headgate.store.artifacts import Artifacts
from headgate.store.audit import Audit
from headgate.store.control import Control
from headgate.store.database import (
    FLEETING_SETTINGS,
    GATE_SETTINGS,
    READ_SETTINGS,
    Database,
    Executor,
    Session,
)
from headgate.store.effects import Effects
from headgate.store.fleet import Duties, Workers
from headgate.store.fleet_view import FleetView
from headgate.store.gate import Gate
from headgate.store.idempotency import Idempotency
from headgate.store.importing import Imports
from headgate.store.indexes import Indexes
from headgate.store.inspection import Inspection
from headgate.store.lanes import Lanes
from headgate.store.leases import Leases
from headgate.store.listener import Listener
from headgate.store.notifier import DeferredNotifier, Notifier
from headgate.store.operations import Operations
from headgate.store.policies import Policies
from headgate.store.producer import JoinedProducer, Producer
from headgate.store.quarantine import Quarantine
from headgate.store.queues import Queues
from headgate.store.recount import Recount
from headgate.store.retention import Retention
from headgate.store.revisions import check
from headgate.store.schedules import Schedules
from headgate.store.settings import StoreSettings
from headgate.store.upkeep import Upkeep
from headgate.store.workflows import Workflows

_CALLER_CONNECTIONS: Final = 64


class Store:
    """One installation of Headgate. Opening it does not connect; use it inside one event loop."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self.database = Database(settings, session_settings=READ_SETTINGS)
        self.hot_path = Database(settings, session_settings=GATE_SETTINGS)
        self._gate_database = Database(
            settings, size=settings.gate_pool_size, session_settings=GATE_SETTINGS
        )
        # Apart, so that no wake-up stands behind a duty.
        self._notify_database, self._duty_database = (
            Database(settings, size=1, session_settings=FLEETING_SETTINGS) for _ in range(2)
        )
        self.notifier = Notifier(
            self._notify_database, enabled=settings.notify and not settings.pooler
        )
        self.listener = Listener(settings)
        self.gate = Gate(self._gate_database)
        self.leases = Leases(self.hot_path)
        self.indexes = Indexes(self.database, settings)
        self.inspection = Inspection(self.database)
        self.artifacts = Artifacts(self.hot_path, reads=self.database)
        # A handler that waits for the transaction of another would only fail.
        self._caller_database = Database(settings, size=_CALLER_CONNECTIONS)
        self.effects = Effects(self._caller_database)
        self.upkeep = Upkeep(self.hot_path, self.notifier)
        self.lanes = Lanes(self.hot_path)
        self.recount = Recount(self.hot_path, self.upkeep)
        self.duties = Duties(self._duty_database)
        self.idempotency = Idempotency(self.hot_path)
        self.imports = Imports(self.hot_path, self.notifier)
        producer = Producer(self.hot_path, self.notifier)
        self._bind(self.database, self.hot_path, self.notifier, producer)

    def _bind(
        self, reads: Executor, writes: Executor, notifier: Notifier, producer: Producer
    ) -> None:
        """Makes the ports that may also work inside the transaction of somebody else."""
        self.access_tokens = AccessTokens(reads)
        self.archive = Archive(writes, self.settings.schema)
        self.audit = Audit(writes)
        self.control = Control(writes, notifier)
        self.fleet = FleetView(reads)
        self.operations = Operations(writes, notifier)
        self.policies = Policies(reads)
        self.producer = producer
        self.quarantine = Quarantine(writes, notifier)
        self.queues = Queues(reads)
        self.counts = self.queues.counts
        self.retention = Retention(writes)
        self.schedules = Schedules(reads, writes, producer, notifier)
        self.workers = Workers(reads)
        self.workflows = Workflows(reads, writes, notifier)

    def within(self, session: Session) -> Self:
        """This store inside an open transaction: what its ports change is a part of it, and queues
        are woken once it is committed. Leases, the gate, reads that go on by windows and duties
        stay outside.
        """
        view = copy(self)
        notifier = DeferredNotifier(self.notifier, session)
        view._bind(session, session, notifier, JoinedProducer(session, notifier))
        return view

    @classmethod
    async def open(cls, settings: StoreSettings) -> Self:
        """A store on these settings; the first call connects."""
        return cls(settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Sends what is to be sent still and closes every connection."""
        await self.notifier.close()
        await self.gate.close()
        await self.listener.close()
        for database in (
            self._gate_database,
            self.hot_path,
            self.database,
            self._caller_database,
            self._notify_database,
            self._duty_database,
        ):
            await database.close()

    async def check_schema(self) -> None:
        """Raises `SchemaMissing` or `SchemaIncompatible` when this code cannot work with the
        schema as it is, and `StoreUnavailable` when the database does not answer.
        """
        await check(self.database)
