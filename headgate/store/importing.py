"""Putting in a list of jobs of any length: part by part, each of them whole, and resumable.

A part is an enqueue like any other, so that every rule of an enqueue holds. What it adds: jobs that
something speaks against are left out and told apart instead of refusing the part, and the position
in the list is written with the jobs, so that nothing gets in twice when the list is read again.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from headgate.model.envelope import DEFAULT_QUEUE, Envelope, prepare
from headgate.model.errors import (
    Backpressure,
    Conflict,
    DuplicateJob,
    FingerprintQuarantined,
    IdConflict,
    StoreError,
    StoreUnavailable,
)
from headgate.model.identity import effective_unique_key
from headgate.model.job import Enqueued
from headgate.model.limits import check_name
from headgate.queries.enqueue_obstacles import (
    existing_jobs,
    key_holders,
    quarantined_fingerprints,
)
from headgate.queries.idempotency import try_lock
from headgate.queries.import_marks import last_mark, set_mark
from headgate.store.database import Database, Session
from headgate.store.notifier import DeferredNotifier, Notifier
from headgate.store.producer import JoinedProducer

_ATTEMPTS: Final = 5

Content = tuple[str, str, str]
"""What an id stands for: kind, fingerprint and queue."""


class Listed(msgspec.Struct, frozen=True):
    """A job of a list, and its position there; positions grow and start above zero."""

    position: int
    envelope: Envelope


class Imported(msgspec.Struct, kw_only=True, frozen=True):
    """What became of a part.

    `done` counts the jobs from its beginning that are dealt with: `enqueued` are in, `replayed`
    were in already, `duplicates` found their unique key held, `refused` cannot get in, each with
    its place in the part. `stopped` is why the job after them did not get in, nor any later one.
    """

    done: int
    enqueued: int
    replayed: int
    duplicates: int
    refused: list[tuple[int, StoreError]]
    stopped: StoreError | None


class Imports:
    """Imports lists of jobs and remembers under a key how far each has come, for 24 hours."""

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier

    async def position(self, key: str) -> int:
        """The position up to which the list of this key is dealt with; 0 for a new one.

        Raises `InvalidRequest` for a key that no row can hold, and `StoreUnavailable`.
        """
        check_name("key", key)
        rows = await self._database.fetch(last_mark(), {"import_scope": _scope(key)})
        return rows[0]["position"] if rows else 0

    async def put_in(
        self,
        part: Sequence[Listed],
        *,
        key: str | None = None,
        after: int = 0,
        leave_out: bool = False,
    ) -> Imported:
        """Enqueues a part of a list, of at most 1,000 jobs that were judged, in one transaction.

        With a `key` the position is remembered; `after` is where the caller thinks it stands. A job
        with a quarantined fingerprint or somebody else's id is left out when `leave_out`, and ends
        the part before it otherwise; so does, in both cases, the first one that its queue has no
        room for. Replacement and debounce need a part of their own.

        Raises `Conflict` when somebody else imports under this key, `InvalidRequest`, and
        `StoreUnavailable`: then the position tells whether the part got in.
        """

        async def run(session: Session) -> Imported:
            if key is not None:
                await self._hold(session, key, after)
            producer = JoinedProducer(session, DeferredNotifier(self._notifier, session))
            sieve = _Sieve(session, [listed.envelope for listed in part], leave_out)
            jobs = await sieve.enqueue(producer)
            if key is not None and jobs:
                mark = {
                    "import_scope": _scope(key),
                    "position": part[sieve.done - 1].position,
                    "last_job_id": jobs[-1].id,
                }
                await session.fetch(set_mark(), mark)
            return sieve.outcome(len(jobs))

        return await self._database.transact(run)

    async def _hold(self, session: Session, key: str, after: int) -> None:
        digest = hashlib.sha256(f"{self._database.settings.schema} {_scope(key)}".encode())
        number = int.from_bytes(digest.digest()[:8], "little", signed=True)
        [locked] = await session.fetch(try_lock(), {"lock_number": number})
        rows = await session.fetch(last_mark(), {"import_scope": _scope(key)})
        if not locked["taken"] or (rows and rows[0]["position"] > after):
            raise Conflict("the same import is going on elsewhere")


def _scope(key: str) -> str:
    return f"import {key}"


class _Sieve:
    """One part on its way in: what is still to be enqueued of it, and what became of the rest."""

    def __init__(self, session: Session, envelopes: Sequence[Envelope], leave_out: bool) -> None:
        self._session = session
        self._envelopes = envelopes
        self._leave_out = leave_out
        self._waiting = list(range(len(envelopes)))
        self._replayed: list[int] = []
        self._duplicates: list[int] = []
        self._refused: list[tuple[int, StoreError]] = []
        self._stopped: StoreError | None = None
        self.done = len(envelopes)

    def outcome(self, enqueued: int) -> Imported:
        return Imported(
            done=self.done,
            enqueued=enqueued,
            replayed=sum(each < self.done for each in self._replayed),
            duplicates=sum(each < self.done for each in self._duplicates),
            refused=[each for each in self._refused if each[0] < self.done],
            stopped=self._stopped,
        )

    async def enqueue(self, producer: JoinedProducer) -> list[Enqueued]:
        """Enqueues what nothing speaks against."""
        first = self._envelopes[0]
        amends = first.unique_replace or first.unique_debounce_ms
        if not amends and any(envelope.id for envelope in self._envelopes):
            await self._sift()
        races = 0
        while self._waiting:
            try:
                return await producer.enqueue([self._envelopes[each] for each in self._waiting])
            except Backpressure as full:
                self._stop_at(self._first_without_room(full), full)
            except (DuplicateJob, IdConflict, FingerprintQuarantined) as refusal:
                if amends and isinstance(refusal, DuplicateJob):
                    self._duplicates, self._waiting = self._waiting, []
                elif races == _ATTEMPTS:
                    raise StoreUnavailable("import kept losing races; try again") from refusal
                else:
                    races += 1
                    await self._sift()
        return []

    def _stop_at(self, position: int, why: StoreError) -> None:
        self._waiting = [each for each in self._waiting if each < position]
        self._stopped = why
        self.done = position

    def _first_without_room(self, full: Backpressure) -> int:
        asking = [
            each
            for each in self._waiting
            if (self._envelopes[each].queue or DEFAULT_QUEUE) == full.queue
        ]
        return asking[max(0, full.limit - full.current)]

    async def _sift(self) -> None:
        """Takes out, in one go, every job that something speaks against by now."""
        prepared = [(each, prepare([self._envelopes[each]])[0]) for each in self._waiting]
        held, contents, holders = await self._obstacles([envelope for _, envelope in prepared])
        self._waiting = []
        for position, envelope in prepared:
            content = (envelope.kind, envelope.fingerprint, envelope.queue)
            known = contents.get(envelope.id)
            key = _key(envelope)
            refusal: StoreError | None = None
            if known is not None and known != content:
                refusal = IdConflict(envelope.id)
            elif known is None and envelope.fingerprint in held:
                refusal = FingerprintQuarantined(envelope.fingerprint)
            if refusal is not None and not self._leave_out:
                self._stop_at(position, refusal)
                return
            if refusal is not None:
                self._refused.append((position, refusal))
            elif known is not None:
                self._replayed.append(position)
            elif key is not None and key in holders:
                self._duplicates.append(position)
            else:
                self._waiting.append(position)
                contents[envelope.id] = content
                if key is not None:
                    holders.add(key)

    async def _obstacles(
        self, envelopes: Sequence[Envelope]
    ) -> tuple[set[str], dict[str, Content], set[bytes]]:
        """Quarantined fingerprints, what the ids stand for already, and the keys that are held."""
        fetch = self._session.fetch
        quarantined = await fetch(
            quarantined_fingerprints(),
            {"fingerprint_array": [each.fingerprint for each in envelopes]},
        )
        existing = await fetch(existing_jobs(), {"id_array": [each.id for each in envelopes]})
        keys = [key for key in map(_key, envelopes) if key is not None]
        holding = await fetch(key_holders(), {"unique_key_array": keys}) if keys else []
        return (
            {row["fingerprint"] for row in quarantined},
            {row["ulid"]: (row["kind"], row["fingerprint"], row["queue"]) for row in existing},
            {row["unique_key"] for row in holding if not row["lapsed"]},
        )


def _key(envelope: Envelope) -> bytes | None:
    return effective_unique_key(envelope.kind, envelope.unique_key, envelope.unique_exclude_kind)
