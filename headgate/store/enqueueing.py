"""The rules of an enqueue as a conversation: it yields statements and is sent their rows.

It does no I/O, so one definition serves every kind of connection. It never provokes an error of
the database: what clashes is left out by the statement and then looked up, because an error would
abort the caller's transaction. What must be undone in part stands behind a savepoint.
"""

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

import msgspec
from msgspec.structs import astuple
from sqlalchemy import Executable, text

from headgate.model.envelope import Envelope, prepare_batch
from headgate.model.errors import (
    Backpressure,
    DuplicateJob,
    FingerprintQuarantined,
    IdConflict,
    StoreError,
    StoreUnavailable,
)
from headgate.model.identity import effective_unique_key, new_job_id
from headgate.model.job import Enqueued, RequestKey
from headgate.queries.amend import amend_holder
from headgate.queries.enqueue import (
    INPUTS,
    REQUIRED,
    SHAREABLE,
    insert_jobs,
)
from headgate.queries.enqueue_lane import FITTING, JOINABLE, JOINT, insert_in_lane
from headgate.queries.enqueue_obstacles import (
    existing_jobs,
    find_request,
    key_holders,
    lock_limits,
    quarantined_fingerprints,
    release_lapsed_keys,
    unfinished_jobs,
)
from headgate.queries.lanes import LANE


class Row(Protocol):
    """What every driver's row can do."""

    def __getitem__(self, name: str, /) -> Any: ...


class Written(NamedTuple):
    """What an enqueue did: where each job ended, and the queues that have new work for workers."""

    jobs: list[Enqueued]
    queues: frozenset[str]


Step = tuple[Executable, Mapping[str, Any]]
Answer = TypeVar("Answer")
Conversation = Generator[Step, Sequence[Row], Answer]

_ATTEMPTS: Final = 5
# Longer payloads take longer to be searched for joints than to be encoded one by one.
_SHORT_BYTES: Final = 256
_JOINT_BYTES: Final = JOINT.encode()
_LANE_INPUTS: Final = frozenset(LANE)
_SAVEPOINT: Final = text("SAVEPOINT headgate_enqueue")
_RELEASE: Final = text("RELEASE SAVEPOINT headgate_enqueue")
_ROLLBACK: Final = text("ROLLBACK TO SAVEPOINT headgate_enqueue")

_encode_json: Final = msgspec.json.Encoder().encode


class Batch:
    """Prepared envelopes as the inputs of a statement."""

    def __init__(
        self,
        envelopes: Sequence[Envelope],
        generated: Collection[int],
        columns: "Iterable[_Column] | None" = None,
    ) -> None:
        self.envelopes = envelopes
        # Positions whose id is ours to change; the others were chosen by the caller.
        self.generated = generated
        self.parameters: dict[str, Any] = {}
        given: set[str] = set()
        shared: set[str] = set()
        size = len(envelopes)
        for name, default, values in columns or _columns(envelopes):
            if name not in REQUIRED:
                if values.count(default) == size:
                    continue
                given.add(name)
                if name in _DERIVED:
                    values = tuple(map(_DERIVED[name], envelopes))
            self.parameters[f"{name}_array"] = values
            if size == 1 or (name in SHAREABLE and values.count(values[0]) == size):
                self.parameters[f"shared_{name}"] = values[0]
                shared.add(name)
        self.given = frozenset(given)
        self.shared = frozenset(shared)

    @classmethod
    def of(cls, envelopes: Sequence[Envelope]) -> Self:
        """Judges the envelopes and takes them up. Raises what `prepare` raises."""
        prepared, plain = prepare_batch(envelopes)
        if plain:
            return cls(prepared, range(len(prepared)), _plain(prepared))
        generated = frozenset(
            position for position, envelope in enumerate(envelopes) if not envelope.id
        )
        return cls(prepared, generated)

    def draw_id_again(self, position: int) -> None:
        """Gives a job another id. Only for a generated one, which nobody has seen yet."""
        self.envelopes[position].id = new_job_id()
        self.parameters["id_array"] = [envelope.id for envelope in self.envelopes]

    def join(self) -> frozenset[str]:
        """Adds those inputs that can be as one text each; which these are."""
        joints = len(self.envelopes) - 1
        joined = set()
        for name in JOINABLE if joints else ():
            values = self.parameters[f"{name}_array"]
            text = _join_payloads(values) if name == "payload" else JOINT.join(values)
            if text.count(JOINT) == joints:
                self.parameters[f"joined_{name}"] = text
                joined.add(name)
        return frozenset(joined)

    @property
    def keyed(self) -> bool:
        return "unique_key" in self.given

    @property
    def lane_is_shared(self) -> bool:
        """Whether all of its jobs belong to one lane, if they are to be available."""
        return self.shared >= _LANE_INPUTS & (self.given | REQUIRED)

    @property
    def chooses_ids(self) -> bool:
        return len(self.generated) < len(self.envelopes)


def _join_payloads(payloads: Sequence[bytes]) -> str:
    """The payloads as one text; empty where bytes are no text everywhere, or too many to search."""
    joined = _JOINT_BYTES.join(payloads)
    if len(joined) > _SHORT_BYTES * len(payloads) or not joined.isascii() or b"\0" in joined:
        return ""
    return joined.decode()


def _read_key(envelope: Envelope) -> bytes | None:
    return effective_unique_key(envelope.kind, envelope.unique_key, envelope.unique_exclude_kind)


def _read_headers(envelope: Envelope) -> str:
    return _encode_json(envelope.headers).decode() if envelope.headers else "{}"


def _read_tags(envelope: Envelope) -> str:
    return _encode_json(envelope.tags).decode() if envelope.tags else "[]"


# How to read the inputs that are not fields of the envelope as they are.
_DERIVED: Final[dict[str, Callable[[Envelope], Any]]] = {
    "unique_key": _read_key,
    "headers": _read_headers,
    "tags": _read_tags,
}

_FIELDS: Final = tuple(
    (field.name, {} if field.name == "headers" else field.default)
    for field in msgspec.structs.fields(Envelope)
)

_READERS: Final = tuple((name, attrgetter(name)) for name in REQUIRED)

_Column = tuple[str, Any, Sequence[Any]]


def _columns(envelopes: Sequence[Envelope]) -> Iterator[_Column]:
    """What the jobs say about each input, and what they say who say nothing."""
    columns = zip(*map(astuple, envelopes), strict=True)
    for (name, default), values in zip(_FIELDS, columns, strict=True):
        if name in INPUTS:
            yield name, default, values


def _plain(envelopes: Sequence[Envelope]) -> list[_Column]:
    """The same of jobs that say nothing optional, so nobody need look for it."""
    return [(name, None, [*map(read, envelopes)]) for name, read in _READERS]


def enqueue(batch: Batch, request: RequestKey | None = None) -> Conversation[Written]:
    """Writes the whole batch or nothing; the answers stand in its order.

    Raises `IdConflict`, `FingerprintQuarantined`, `Backpressure` or `DuplicateJob`, in this order
    of precedence. A `DuplicateJob` with `replaced` comes after its change of the holder: whoever
    runs the conversation keeps the transaction then. Raises `StoreUnavailable` when the batch kept
    losing races, which takes several holders of its keys to come and go meanwhile.
    """
    for _ in range(_ATTEMPTS):
        if request is not None:
            known = yield find_request(), _request_parameters(request)
            if known:
                return Written([Enqueued(known[0]["job_id"], replayed=True)], frozenset())
        rows: Sequence[Row] = ()
        fresh = yield from _without_replays(batch)
        if fresh is not None:
            try:
                yield from _refuse_quarantined(fresh)
                yield from _respect_limits(fresh)
                if fresh.keyed:
                    yield from _respect_holders(fresh)
            except (FingerprintQuarantined, Backpressure, DuplicateJob) as refusal:
                # The same enqueue may have come first, while this one waited for it.
                if not (yield from _came_first(fresh, request, refusal)):
                    raise
                continue
            rows = yield from _write(fresh, request)
            if not rows:
                continue
        return written(batch, rows)
    raise StoreUnavailable("enqueue kept losing races; try again")


def _came_first(
    batch: Batch, request: RequestKey | None, refusal: StoreError
) -> Conversation[bool]:
    """Whether a repetition of this enqueue was committed after we looked for one."""
    if isinstance(refusal, DuplicateJob) and refusal.replaced:
        return False
    if request is not None and (yield find_request(), _request_parameters(request)):
        return True
    if not batch.chooses_ids:
        return False
    return bool((yield existing_jobs(), {"id_array": batch.parameters["id_array"]}))


def count(rows: Sequence[Row]) -> int:
    """How many jobs the statement wrote."""
    return sum(row["jobs"] for row in rows)


def in_one_lane(batch: Batch) -> Written:
    """The answer for a batch that the quickest statement wrote."""
    queue = batch.envelopes[0].queue
    return Written([Enqueued(envelope.id) for envelope in batch.envelopes], frozenset({queue}))


def written(batch: Batch, rows: Sequence[Row]) -> Written:
    """The answer for a batch of which the statement that wrote it answered `rows`."""
    return Written(
        [Enqueued(envelope.id) for envelope in batch.envelopes],
        frozenset(row["queue"] for row in rows if row["available"]),
    )


def short_insert(
    batch: Batch, request: RequestKey | None
) -> tuple[Executable, dict[str, Any]] | None:
    """The quickest statement for what most enqueues are, if this is one."""
    if not batch.given <= FITTING or not batch.lane_is_shared:
        return None
    if len(batch.envelopes) > 1 and (batch.keyed or batch.chooses_ids):
        return None
    statement = insert_in_lane(
        batch.given,
        shared=batch.shared,
        joined=batch.join(),
        chosen_ids=batch.chooses_ids,
        request=request is not None,
    )
    if request is None:
        return statement, batch.parameters
    return statement, {**batch.parameters, **_request_parameters(request)}


def guarded_insert(
    batch: Batch, request: RequestKey | None = None, *, tolerant: bool = False
) -> tuple[Executable, dict[str, Any]]:
    """The statement that writes the batch at once where nothing speaks against it."""
    statement = insert_jobs(
        batch.given,
        shared=batch.shared & SHAREABLE,
        guarded=True,
        tolerant=tolerant,
        chosen_ids=batch.chooses_ids,
        request=request is not None,
    )
    if request is None:
        return statement, batch.parameters
    return statement, {**batch.parameters, **_request_parameters(request)}


def _request_parameters(request: RequestKey) -> dict[str, Any]:
    return {"request_scope": request.scope, "request_key": request.key}


def _write(batch: Batch, request: RequestKey | None) -> Conversation[Sequence[Row]]:
    """The rows of the statement; none, and nothing written, when one job clashes with another."""
    yield _SAVEPOINT, {}
    parameters = {**batch.parameters, **(_request_parameters(request) if request else {})}
    statement = insert_jobs(
        batch.given,
        shared=batch.shared & SHAREABLE,
        guarded=False,
        tolerant=True,
        chosen_ids=batch.chooses_ids,
        request=request is not None,
    )
    rows = yield statement, parameters
    if count(rows) == len(batch.envelopes):
        yield _RELEASE, {}
        return rows
    yield _ROLLBACK, {}
    return ()


def _without_replays(batch: Batch) -> Conversation[Batch | None]:
    """What is left of the batch without jobs that exist already; None when nothing is."""
    existing = yield existing_jobs(), {"id_array": batch.parameters["id_array"]}
    if not existing:
        return batch
    known = {row["ulid"]: (row["kind"], row["fingerprint"], row["queue"]) for row in existing}
    fresh: list[Envelope] = []
    generated: set[int] = set()
    for position, envelope in enumerate(batch.envelopes):
        content = known.get(envelope.id)
        if position in batch.generated:
            if content is not None:
                batch.draw_id_again(position)
            generated.add(len(fresh))
        elif content == (envelope.kind, envelope.fingerprint, envelope.queue):
            continue
        elif content is not None:
            raise IdConflict(envelope.id)
        fresh.append(envelope)
    return Batch(fresh, frozenset(generated)) if fresh else None


def _refuse_quarantined(batch: Batch) -> Conversation[None]:
    fingerprints = batch.parameters["fingerprint_array"]
    rows = yield quarantined_fingerprints(), {"fingerprint_array": fingerprints}
    held = {row["fingerprint"] for row in rows}
    for value in fingerprints if held else ():
        if value in held:
            raise FingerprintQuarantined(value)


def _respect_limits(batch: Batch) -> Conversation[None]:
    queues = sorted(set(batch.parameters["queue_array"]))
    limits = yield lock_limits(), {"queue_array": queues}
    if not limits:
        return
    limited = [row["queue"] for row in limits]
    rows = yield unfinished_jobs(), {"queue_array": limited}
    current = {row["queue"]: row["current"] for row in rows}
    for row in limits:
        queue, limit = row["queue"], row["max_unfinished_jobs"]
        incoming = batch.parameters["queue_array"].count(queue)
        if current.get(queue, 0) + incoming > limit:
            raise Backpressure(queue, limit=limit, current=current.get(queue, 0), incoming=incoming)


def _respect_holders(batch: Batch) -> Conversation[None]:
    keys = batch.parameters["unique_key_array"]
    rows = yield key_holders(), {"unique_key_array": [key for key in keys if key is not None]}
    lapsed = [row["id"] for row in rows if row["lapsed"]]
    if lapsed:
        yield release_lapsed_keys(), {"row_id_array": lapsed}
    holders = {row["unique_key"]: row for row in rows if not row["lapsed"]}
    for envelope, key in zip(batch.envelopes, keys, strict=True):
        holder = holders.get(key)
        if holder is None:
            continue
        amends = envelope.unique_replace or envelope.unique_debounce_ms
        if amends and holder["ulid"] != envelope.id:
            amended = yield (
                amend_holder(envelope.unique_replace, debounce=envelope.unique_debounce_ms > 0),
                {
                    "holder_id": holder["id"],
                    "holder_key": key,
                    "new_payload": envelope.payload,
                    "new_schema_version": envelope.schema_version,
                    "new_fingerprint": envelope.fingerprint,
                    "new_priority": envelope.priority,
                    "new_max_attempts": envelope.max_attempts,
                    "new_scheduled_at_ms": envelope.scheduled_at_ms,
                    "new_delay_ms": envelope.delay_ms,
                    "new_debounce_ms": envelope.unique_debounce_ms,
                    "new_tags": _encode_json(envelope.tags).decode(),
                },
            )
            raise DuplicateJob(holder["ulid"], replaced=bool(amended), key=key)
        raise DuplicateJob(holder["ulid"], key=key)
