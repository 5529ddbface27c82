"""How jobs enter: one statement for a whole batch.

`insert_jobs` writes jobs, tags, lanes and the request key together. Its variants carry only the
columns that some job of the batch sets, since each array costs on both sides. With `guarded`, it
writes nothing at all while anything speaks against the batch (a quarantined fingerprint, a limited
queue, an id or key that exists); `enqueue_obstacles` then finds out what it was.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Executable,
    FromClause,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    case,
    cast,
    collate,
    column,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.types import TypeEngine

from headgate.queries.clock import instant
from headgate.queries.lanes import LANE, register
from headgate.queries.literals import always, number
from headgate.queries.states import is_live, state_value
from headgate.tables import (
    enqueue_key,
    enqueue_policy,
    job,
    job_state,
    job_tag,
    quarantine,
)


class _Input(NamedTuple):
    """One array of the statement. Without a default every batch brings it."""

    type: TypeEngine[Any]
    default: str | None = None

    @property
    def constant(self) -> ColumnElement[Any]:
        """The default as it stands in a statement."""
        return literal_column(str(self.default))


INPUTS: Final[Mapping[str, _Input]] = {
    "id": _Input(Text()),
    "kind": _Input(Text()),
    "payload": _Input(LargeBinary()),
    "queue": _Input(Text()),
    "fingerprint": _Input(Text()),
    "schema_version": _Input(Integer(), "1"),
    "partition_key": _Input(Text(), "''"),
    "rate_class": _Input(Text(), "''"),
    "weight": _Input(Integer(), "1"),
    "priority": _Input(Integer(), "0"),
    "max_attempts": _Input(Integer(), "25"),
    "scheduled_at_ms": _Input(BigInteger(), "0"),
    "delay_ms": _Input(BigInteger(), "0"),
    "timeout_ms": _Input(BigInteger(), "0"),
    "deadline_ms": _Input(BigInteger(), "0"),
    "retention_ms": _Input(BigInteger(), "0"),
    "unique_key": _Input(LargeBinary(), "NULL"),
    "unique_window_ms": _Input(BigInteger(), "0"),
    "unique_debounce_ms": _Input(BigInteger(), "0"),
    "headers": _Input(Text(), "'{}'"),
    "tags": _Input(Text(), "'[]'"),
    "periodic_schedule_id": _Input(Text(), "''"),
    "periodic_tick_ms": _Input(BigInteger(), "0"),
    "pending": _Input(Boolean(), "false"),
    "sticky_worker": _Input(Text(), "''"),
}
SHAREABLE: Final = frozenset({"kind", *LANE})
"""What most batches have in common, and then send once."""

REQUIRED: Final = frozenset(name for name, given in INPUTS.items() if given.default is None)

# A sequence is a relation; read as one, its name is quoted and translated like a table's.
_row_ids = Table("headgate_job_id_seq", MetaData(), Column("tableoid", BigInteger))

_SCHEDULING = frozenset({"scheduled_at_ms", "delay_ms", "unique_debounce_ms", "pending"})
# Columns that take their input as it is; the others are derived from it below.
PLAIN: Final = (
    "kind",
    "payload",
    "queue",
    "fingerprint",
    "schema_version",
    "partition_key",
    "rate_class",
    "weight",
    "priority",
    "max_attempts",
    "timeout_ms",
    "deadline_ms",
    "retention_ms",
    "unique_key",
    "periodic_schedule_id",
    "periodic_tick_ms",
    "sticky_worker",
)


def batch_rows(
    names: Iterable[str],
    alias: str,
    *,
    numbered: bool = False,
    apart: Mapping[str, ColumnElement[Any]] = MappingProxyType({}),
) -> TableValuedAlias:
    """The arrays of these inputs as rows, in their order; with their `position` on demand. What is
    not sent as an array has its expression in `apart`.
    """
    names = list(names)
    return (
        func.unnest(*(apart.get(name, batch_array(name, INPUTS[name].type)) for name in names))
        .table_valued(
            *(column(name, INPUTS[name].type) for name in names),
            with_ordinality="position" if numbered else None,
        )
        .render_derived(name=alias)
    )


def batch_array(name: str, kind: TypeEngine[Any]) -> Any:
    return bindparam(f"{name}_array", type_=ARRAY(kind))


def _zero() -> ColumnElement[int]:
    return number(0)


@cache
def insert_jobs(
    given: frozenset[str],
    *,
    shared: frozenset[str] = frozenset(),
    guarded: bool,
    tolerant: bool,
    chosen_ids: bool = False,
    request: bool = False,
) -> Executable:
    """Inserts the batch in its order; rows (queue, available, jobs) count those that are there.

    `given` names the optional inputs, `shared` those that are one value `shared_{input}` for all
    jobs instead of an array. `guarded` writes nothing when something visible speaks
    against the batch. `tolerant` is for a transaction that goes on: what clashes otherwise is left
    out, so that the caller counts the rows, and new lanes are registered at the commit; else it
    raises, which undoes the statement. `chosen_ids` tells that callers chose some
    ids, which are guarded too. `request` records the key `request_scope`, `request_key` for the
    job.
    """
    names = [name for name in INPUTS if (name in REQUIRED or name in given) and name not in shared]
    clock = select(instant().label("now_ms")).cte("clock").prefix_with("MATERIALIZED")
    batch = batch_rows(names, "batch", numbered=True)
    clashing = chosen_ids or "unique_key" in given
    rows = _numbered(batch) if clashing else select(batch)
    source = rows.cte("source").prefix_with("MATERIALIZED")

    value = Inputs(shared, source)
    now = clock.c.now_ms
    values: dict[str, ColumnElement[Any]] = {
        name: value[name] for name in PLAIN if name in names or name in shared
    }
    values["ulid"] = source.c.id
    values["enqueued_at_ms"] = now
    values["state"], values["scheduled_at_ms"] = _placement(value, given, now)
    if "headers" in given:
        values["headers"] = cast(source.c.headers, JSONB)
    if "unique_window_ms" in given:
        values["unique_expires_at_ms"] = case(
            (value["unique_window_ms"] > _zero(), now + value["unique_window_ms"])
        )
    if "row_id" in source.c:
        values["id"] = source.c.row_id
    rows = select(*values.values()).select_from(source.join(clock, always()))
    if guarded:
        rows = rows.where(*guards(value, given, chosen_ids=chosen_ids, request=request))
    writing = insert(job).from_select(list(values), rows.order_by(*_order(source)))
    if tolerant:
        writing = writing.on_conflict_do_nothing()
    inserted = writing.returning(
        job.c.id,
        job.c.ulid,
        job.c.queue,
        job.c.sticky_worker,
        job.c.priority,
        job.c.partition_key,
        job.c.rate_class,
        job.c.enqueued_at_ms,
        (job.c.state == state_value("available")).label("available"),
    ).cte("inserted")
    fresh = select(inserted).where(inserted.c.available).subquery("fresh")
    effects: list[CTE] = [*register(fresh, at_commit=tolerant)]
    if "tags" in given:
        effects.append(_insert_tags(inserted, source).cte("tagged"))
    if request:
        effects.append(record_request(inserted).cte("recorded"))
    return (
        select(inserted.c.queue, inserted.c.available, func.count().label("jobs"))
        .group_by(inserted.c.queue, inserted.c.available)
        .add_cte(*effects)
    )


class Inputs:
    """Where a statement finds an input: in a parameter, with the batch, or in its default."""

    def __init__(self, shared: frozenset[str], batch: FromClause | None) -> None:
        self._shared = shared
        self.batch = batch

    def __getitem__(self, name: str) -> Any:
        if name in self._shared:
            return bindparam(f"shared_{name}", type_=INPUTS[name].type)
        if self.batch is not None and self.varies(name):
            return self.batch.c[name]
        return INPUTS[name].constant

    def varies(self, name: str) -> bool:
        """Whether each job of the batch brings its own."""
        return self.batch is not None and name not in self._shared and name in self.batch.c


def _numbered(batch: FromClause) -> Select[Any]:
    """The batch with the row ids that its order gives, so that it can be inserted in another."""
    return (
        select(batch, func.nextval(_row_ids.c.tableoid).label("row_id"))
        .select_from(batch.join(_row_ids, always()))
        .order_by(batch.c.position)
    )


def _order(source: CTE) -> list[ColumnElement[Any]]:
    """The order of insertion. Two batches that wait for each other's keys or ids meet the first
    one that they share at the same place, or they would deadlock.
    """
    if "row_id" not in source.c:
        return [source.c.position]
    keys = [source.c.unique_key] if "unique_key" in source.c else []
    return [*keys, collate(source.c.id, "C")]


def _placement(
    value: Any, given: frozenset[str], now: ColumnElement[int]
) -> tuple[ColumnElement[Any], ColumnElement[int]]:
    """The state and the due time of a new job."""
    if not given & _SCHEDULING:
        return state_value("available"), now
    due = case(
        (value["unique_debounce_ms"] > _zero(), now + value["unique_debounce_ms"]),
        (value["delay_ms"] > _zero(), now + value["delay_ms"]),
        (value["scheduled_at_ms"] > _zero(), value["scheduled_at_ms"]),
        else_=now,
    )
    state = case(
        (value["pending"], state_value("pending")),
        (or_(value["unique_debounce_ms"] > _zero(), due > now), state_value("scheduled")),
        else_=state_value("available"),
    )
    return cast(state, job_state), due


def guards(
    value: Inputs, given: frozenset[str], *, chosen_ids: bool, request: bool
) -> list[ColumnElement[bool]]:
    """What must not exist for the inputs."""
    held = _none(value, "fingerprint", lambda each: quarantine.c.fingerprint == each)
    if value.varies("fingerprint"):
        # Mostly nothing is in quarantine, which is one question instead of one for each job.
        held = or_(~select(number(1)).select_from(quarantine).correlate(None).exists(), held)
    found = [
        held,
        _none(
            value,
            "queue",
            lambda each: and_(
                enqueue_policy.c.queue == each, enqueue_policy.c.max_unfinished_jobs.is_not(None)
            ),
        ),
    ]
    if chosen_ids:
        found.append(_none(value, "id", lambda each: job.c.ulid == each))
    if "unique_key" in given:
        # Two questions, as each is answered by an index of its own.
        found.append(
            _none(
                value,
                "unique_key",
                lambda each: and_(job.c.unique_key == each, is_live(job.c.state)),
            )
        )
        found.append(
            _none(
                value,
                "unique_key",
                lambda each: and_(
                    job.c.unique_key == each, job.c.unique_expires_at_ms.is_not(None)
                ),
            )
        )
    if request:
        key = and_(
            enqueue_key.c.scope == bindparam("request_scope", type_=Text),
            enqueue_key.c.key == bindparam("request_key", type_=Text),
        )
        found.append(~select(number(1)).where(key).exists())
    return found


def _none(
    value: Inputs, name: str, condition: Callable[[ColumnElement[Any]], ColumnElement[bool]]
) -> ColumnElement[bool]:
    """That no row meets the condition on this input of any job."""
    one = number(1)
    met = select(one).where(condition(value[name]))
    if value.batch is not None and value.varies(name):
        # Job by job, through an index: as a join it could be read the other way round, and whole.
        first = met.limit(one).correlate(value.batch).lateral("met")
        met = select(one).select_from(value.batch.join(first, always()))
    # Uncorrelated: one job that something speaks against keeps the whole batch out.
    return ~met.correlate(None).exists()


def _insert_tags(inserted: CTE, source: CTE) -> Insert:
    each = (
        func.jsonb_array_elements_text(cast(source.c.tags, JSONB))
        .table_valued("value", name="each")
        .lateral()
    )
    return insert(job_tag).from_select(
        ["job_id", "tag"],
        select(inserted.c.id, each.c.value).select_from(
            inserted.join(source, source.c.id == inserted.c.ulid).join(each, always())
        ),
    )


def record_request(inserted: CTE) -> Insert:
    """Keeps the request key for the job in `inserted`."""
    return insert(enqueue_key).from_select(
        ["scope", "key", "job_id", "recorded_at_ms"],
        select(
            bindparam("request_scope", type_=Text),
            bindparam("request_key", type_=Text),
            inserted.c.ulid,
            inserted.c.enqueued_at_ms,
        ),
    )
