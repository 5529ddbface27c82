"""What an enqueue does, as one table: the same however the enqueue reaches the database."""

from dataclasses import dataclass, field
from typing import Any

from headgate.model.envelope import Envelope
from headgate.model.errors import (
    Backpressure,
    DuplicateJob,
    FingerprintQuarantined,
    IdConflict,
    InvalidRequest,
    StoreError,
)
from headgate.model.identity import effective_unique_key, fingerprint
from headgate.model.lifecycle import Destination, State
from tests.store.rows import HOUR_MS

FAR = 4_000_000_000_000
KEY = effective_unique_key("mail", b"k", False)

Columns = dict[str, Any]


def job(**fields: Any) -> Envelope:
    return Envelope(**{"kind": "mail", **fields})


@dataclass
class Expectation:
    """A batch, what is there before it comes, and what it leads to.

    `holder` is brought to `holder_state` first, under the id `holder`; `altered` columns are then
    written into its row. The batch gets in, or is `refused` with these `facts`; afterwards `rows`
    stand in the table under their ids, at least with these columns, and no others.
    """

    batch: list[Envelope]
    rows: dict[str, Columns] = field(default_factory=dict)
    holder: Envelope | None = None
    holder_state: Destination = State.AVAILABLE
    altered: Columns = field(default_factory=dict)
    quarantined: str = ""
    limits: dict[str, int] = field(default_factory=dict)
    refused: type[StoreError] | None = None
    facts: Columns = field(default_factory=dict)


def gets_in(columns: Columns | None = None, **fields: Any) -> Expectation:
    return Expectation([job(id="new", **fields)], {"new": columns or fields})


def held(batch: list[Envelope], **changes: Any) -> Expectation:
    """Refused for the key of a holder that waits, which keeps all of its columns."""
    return Expectation(
        batch,
        **{
            "holder": job(unique_key=b"k"),
            "rows": {"holder": {"payload": b""}},
            "refused": DuplicateJob,
            "facts": {"existing_id": "holder", "replaced": False, "key": KEY},
            **changes,
        },
    )


def replaced(mask: int, columns: Columns, state: State = State.AVAILABLE) -> Expectation:
    newcomer = job(
        unique_key=b"k",
        unique_replace=mask,
        payload=b"new",
        priority=7,
        max_attempts=4,
        scheduled_at_ms=FAR,
    )
    unchanged = {"payload": b"", "priority": 0, "max_attempts": 25}
    return held(
        [newcomer],
        holder_state=state,
        rows={"holder": {"state": state, **unchanged, **columns}},
        facts={"existing_id": "holder", "replaced": bool(columns)},
    )


EXPECTATIONS: dict[str, Expectation] = {
    "nothing said": gets_in(
        {
            "kind": "mail",
            "state": "available",
            "queue": "default",
            "payload": b"",
            "fingerprint": fingerprint("mail", b""),
            "schema_version": 1,
            "weight": 1,
            "max_attempts": 25,
            "unique_key": None,
            "headers": "{}",
        }
    ),
    "every byte in the payload": gets_in(payload=bytes(range(256))),
    "a name of any script": gets_in(
        queue="дело é", partition_key="*%_'\"\\ \u2028", rate_class="ü"
    ),
    "numbers at their ends": gets_in(
        weight=2_147_483_647, priority=-2_147_483_648, schema_version=2_147_483_647, max_attempts=1
    ),
    "durations": gets_in(timeout_ms=1, deadline_ms=FAR, retention_ms=1_500),
    "zeros ask for defaults": gets_in(
        {"weight": 1, "max_attempts": 25, "schema_version": 1, "queue": "default"},
        weight=0,
        max_attempts=0,
        schema_version=0,
        queue="",
    ),
    "a fingerprint of one's own": gets_in(fingerprint="mine"),
    "headers": gets_in({"headers": '{"a": "é", "b": "q\\"\\\\"}'}, headers={"b": 'q"\\', "a": "é"}),
    "tags": gets_in({"tags": ["M", "a", "z"]}, tags=("z", "a", "M")),
    "the worker it sticks to": gets_in(sticky_worker="worker-1"),
    "the tick it stands for": gets_in(periodic_schedule_id="nightly", periodic_tick_ms=60_000),
    "held back": gets_in({"state": "pending"}, pending=True),
    "for later": gets_in({"state": "scheduled", "scheduled_at_ms": FAR}, scheduled_at_ms=FAR),
    "for an instant that is over": gets_in(
        {"state": "available", "scheduled_at_ms": 1}, scheduled_at_ms=1
    ),
    "after a delay": gets_in({"state": "scheduled"}, delay_ms=HOUR_MS),
    "debounced": gets_in(
        {"state": "scheduled", "unique_key": KEY}, unique_key=b"k", unique_debounce_ms=HOUR_MS
    ),
    "a key": gets_in({"unique_key": KEY, "unique_expires_at_ms": None}, unique_key=b"k"),
    "an empty key": gets_in(
        {"unique_key": effective_unique_key("mail", b"", False)}, unique_key=b""
    ),
    "a key for all kinds": gets_in(
        {"unique_key": effective_unique_key("mail", b"k\0\xff", True)},
        unique_key=b"k\0\xff",
        unique_exclude_kind=True,
    ),
    "a batch of many lanes": Expectation(
        [job(id=f"{n}", queue=f"q{n % 3}", priority=n % 5) for n in range(40)],
        {f"{n}": {"queue": f"q{n % 3}", "priority": n % 5} for n in range(40)},
    ),
    "a batch of differing fields": Expectation(
        [
            job(id="a", tags=("t",)),
            job(id="b", unique_key=b"k", headers={"h": "1"}),
            job(id="c", pending=True),
            job(id="d", delay_ms=1),
        ],
        {
            "a": {"tags": ["t"], "headers": "{}"},
            "b": {"unique_key": KEY, "headers": '{"h": "1"}', "tags": []},
            "c": {"state": "pending"},
            "d": {"state": "scheduled"},
        },
    ),
    "the same key in another scope": Expectation(
        [
            job(id="new", kind="other", unique_key=b"k"),
            job(id="all", unique_key=b"k", unique_exclude_kind=True),
        ],
        {"holder": {}, "new": {}, "all": {}},
        holder=job(unique_key=b"k"),
    ),
    "the key of a job that has ended": Expectation(
        [job(id="new", unique_key=b"k")],
        {"holder": {"state": "archived"}, "new": {}},
        holder=job(unique_key=b"k"),
        holder_state=State.ARCHIVED,
    ),
    "the key of a throttle that has lapsed": Expectation(
        [job(id="new", unique_key=b"k")],
        {"holder": {"unique_key": None}, "new": {"unique_key": KEY}},
        holder=job(unique_key=b"k", unique_window_ms=HOUR_MS),
        altered={"unique_expires_at_ms": 1},
    ),
    "a repetition": Expectation(
        [job(id="holder", priority=9)],
        {"holder": {"priority": 0}},
        holder=job(),
    ),
    "a repetition of one that has ended": Expectation(
        [job(id="holder", unique_key=b"k")],
        {"holder": {"state": "cancelled"}},
        holder=job(unique_key=b"k"),
        holder_state=State.CANCELLED,
    ),
    "a repetition among others": Expectation(
        [job(id="new"), job(id="holder"), job(id="newer")],
        {"holder": {}, "new": {}, "newer": {}},
        holder=job(),
    ),
    "room to the last place": Expectation(
        [job(id="a"), job(id="b")],
        {"holder": {}, "a": {}, "b": {}},
        holder=job(),
        limits={"default": 3},
    ),
    "other content under an id": Expectation(
        [job(id="holder", payload=b"other")],
        {"holder": {"payload": b""}},
        holder=job(),
        refused=IdConflict,
        facts={"job_id": "holder"},
    ),
    "another queue under an id": Expectation(
        [job(id="new"), job(id="holder", queue="elsewhere")],
        {"holder": {"queue": "default"}},
        holder=job(),
        refused=IdConflict,
        facts={"job_id": "holder"},
    ),
    "an id twice": Expectation(
        [job(id="a"), job(id="a")], refused=IdConflict, facts={"job_id": "a"}
    ),
    "a quarantined fingerprint": Expectation(
        [job(), job(fingerprint="bad")],
        quarantined="bad",
        refused=FingerprintQuarantined,
        facts={"fingerprint": "bad"},
    ),
    "more than there is room for": Expectation(
        [job(queue="small"), job(), job(queue="small")],
        {"holder": {}},
        holder=job(queue="small"),
        limits={"small": 2},
        refused=Backpressure,
        facts={"queue": "small", "limit": 2, "current": 1, "incoming": 2},
    ),
    "a queue that takes nothing": Expectation(
        [job(queue="closed")],
        limits={"closed": 0},
        refused=Backpressure,
        facts={"queue": "closed", "limit": 0, "current": 0, "incoming": 1},
    ),
    "a key that is held": held([job(unique_key=b"k")]),
    "a key that is held, in a batch": held([job(), job(unique_key=b"k"), job(unique_key=b"l")]),
    "a key that a pending job holds": held([job(unique_key=b"k")], holder_state=State.PENDING),
    "a key that a running job holds": held([job(unique_key=b"k")], holder_state=State.RUNNING),
    "a key in its window": held(
        [job(unique_key=b"k")],
        holder=job(unique_key=b"k", unique_window_ms=HOUR_MS),
        holder_state=State.COMPLETED,
        rows={"holder": {"state": "completed", "unique_key": KEY}},
    ),
    "a key twice": Expectation(
        [job(id="a", unique_key=b"k"), job(unique_key=b"k")],
        refused=DuplicateJob,
        facts={"existing_id": "a", "replaced": False},
    ),
    "replaced payload": replaced(1, {"payload": b"new"}),
    "replaced priority and attempts": replaced(12, {"priority": 7, "max_attempts": 4}),
    "replaced all of one that waits for its time": replaced(
        15,
        {"payload": b"new", "scheduled_at_ms": FAR, "priority": 7, "max_attempts": 4},
        State.SCHEDULED,
    ),
    "nothing replaced in one that runs": replaced(15, {}, State.RUNNING),
    "a silence that begins anew": held(
        [job(unique_key=b"k", unique_debounce_ms=HOUR_MS, payload=b"last")],
        rows={"holder": {"state": "scheduled", "payload": b"last"}},
        facts={"existing_id": "holder", "replaced": True},
    ),
    "an id before a fingerprint before a limit before a key": held(
        [job(unique_key=b"k"), job(queue="closed"), job(fingerprint="bad")],
        quarantined="bad",
        limits={"closed": 0},
        refused=FingerprintQuarantined,
        facts={"fingerprint": "bad"},
    ),
    "a limit before a key": held(
        [job(unique_key=b"k"), job(queue="closed")],
        limits={"closed": 0},
        refused=Backpressure,
        facts={"queue": "closed"},
    ),
    "NUL in a name": Expectation(
        [job(queue="a\0")],
        refused=InvalidRequest,
        facts={"message": "queue must not contain NUL"},
    ),
    "no kind": Expectation([job(kind="")], refused=InvalidRequest),
    "too many": Expectation(
        [job()] * 1_001,
        refused=InvalidRequest,
        facts={"message": "enqueue batch must contain at most 1000 jobs"},
    ),
}
