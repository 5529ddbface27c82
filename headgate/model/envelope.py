"""A job as a producer hands it in, and the one place that judges whether it may enter.

Types are the wire's business: whoever builds an `Envelope` gives a text where a text belongs.
`prepare` judges the domain: bounds, combinations, characters, repetitions.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from headgate.model.errors import DuplicateJob, IdConflict, InvalidRequest
from headgate.model.identity import effective_unique_key, fingerprint, new_job_ids
from headgate.model.kinds import check_kind
from headgate.model.limits import (
    MAX_BATCH_BYTES,
    MAX_BATCH_JOBS,
    MAX_HEADERS,
    MAX_HEADERS_BYTES,
    MAX_NAME_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_TAG_BYTES,
    MAX_TAGS,
    MAX_UNIQUE_KEY_BYTES,
    check_characters,
    check_count,
    check_milliseconds,
    check_name,
    check_priority,
)

DEFAULT_QUEUE = "default"
DEFAULT_MAX_ATTEMPTS = 25

RESERVED_IDS = frozenset({"counts", "actions", "bulk", "batch"})
"""Words that stand where a job id stands in a route: such a job could not be reached."""

REPLACE_PAYLOAD = 1
REPLACE_SCHEDULED_AT = 2
REPLACE_PRIORITY = 4
REPLACE_MAX_ATTEMPTS = 8
_REPLACE_ALL = 15

# A number with none of these bits is not negative and lies well inside every bound.
_UNUSUAL_INT32 = ~(2**31 - 1)
_UNUSUAL_MS = ~(2**47 - 1)


class Envelope(msgspec.Struct, kw_only=True, gc=False):
    """Everything a producer may say about a job. Instants and durations are milliseconds.

    `id` "" asks for a generated one; `fingerprint` "" for the one that the content gives. A zero in
    `schema_version`, `weight` or `max_attempts` and an empty `queue` ask for the default;
    `scheduled_at_ms` 0 means now, `delay_ms` after now. `unique_key` None is no key, b"" is a key.
    """

    id: str = ""
    kind: str
    schema_version: int = 1
    payload: bytes = b""
    queue: str = DEFAULT_QUEUE
    partition_key: str = ""
    rate_class: str = ""
    weight: int = 1
    fingerprint: str = ""
    priority: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    scheduled_at_ms: int = 0
    delay_ms: int = 0
    timeout_ms: int = 0
    deadline_ms: int = 0
    retention_ms: int = 0
    unique_key: bytes | None = None
    unique_window_ms: int = 0
    unique_replace: int = 0
    unique_debounce_ms: int = 0
    unique_exclude_kind: bool = False
    periodic_schedule_id: str = ""
    periodic_tick_ms: int = 0
    headers: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    pending: bool = False
    sticky_worker: str = ""


def prepare(envelopes: Sequence[Envelope]) -> list[Envelope]:
    """Copies of `envelopes` with every default applied, after the whole batch was judged.

    Nothing of the batch may be written when this raises. Raises `InvalidRequest` for what can never
    succeed, `IdConflict` for an id that stands twice, and `DuplicateJob` for a unique key that
    stands twice in one scope, naming the first job that asks for it.

    The copies share headers with the originals; a prepared envelope is to be read, not changed.
    """
    return prepare_batch(envelopes)[0]


def prepare_batch(envelopes: Sequence[Envelope]) -> tuple[list[Envelope], bool]:
    """What `prepare` makes, and whether they are plain: jobs of which nothing was said but their
    kind, payload and queue.
    """
    if len(envelopes) > MAX_BATCH_JOBS:
        raise InvalidRequest(f"enqueue batch must contain at most {MAX_BATCH_JOBS} jobs")
    plain = [Envelope(kind=each.kind, payload=each.payload, queue=each.queue) for each in envelopes]
    if plain == list(envelopes) and _all_may_enter(plain):
        for envelope, job_id in zip(plain, new_job_ids(len(plain)), strict=True):
            envelope.id = job_id
            envelope.fingerprint = fingerprint(envelope.kind, envelope.payload)
        return plain, True
    keyed = _judge_each(envelopes)
    prepared: list[Envelope] = [
        envelope.__copy__()  # type: ignore[attr-defined]  # every struct has it
        for envelope in envelopes
    ]
    nameless = []
    for envelope in prepared:
        if not envelope.id:
            nameless.append(envelope)
        if not envelope.fingerprint:
            envelope.fingerprint = fingerprint(envelope.kind, envelope.payload)
        if not (
            envelope.queue
            and envelope.schema_version
            and envelope.weight
            and envelope.max_attempts
            and not envelope.tags
        ):
            _fill_in(envelope)
    for envelope, job_id in zip(nameless, new_job_ids(len(nameless)), strict=True):
        envelope.id = job_id
    if keyed and len(prepared) > 1:
        _refuse_repeated_keys(prepared)
    return prepared, False


def _all_may_enter(plain: Sequence[Envelope]) -> bool:
    """Judges plain jobs together. What is wrong with them is told by who judges them one by one."""
    lengths = [len(envelope.payload) for envelope in plain]
    if not lengths or max(lengths) > MAX_PAYLOAD_BYTES or sum(lengths) > MAX_BATCH_BYTES:
        return False
    try:
        for kind, queue in {(envelope.kind, envelope.queue) for envelope in plain}:
            if not queue:
                return False
            _judge_names_of_plain(kind, queue)
    except InvalidRequest:
        return False
    return True


@lru_cache(maxsize=1024)
def _judge_names_of_plain(kind: str, queue: str) -> None:
    """Both come again with every job; those that passed are remembered."""
    _judge(Envelope(kind=kind, queue=queue), 0)


def _judge_each(envelopes: Sequence[Envelope]) -> bool:
    """Refuses a batch that cannot enter; whether one of its jobs has a unique key otherwise."""
    ids: set[str] = set()
    total_bytes = 0
    amends = False
    keyed = False
    for envelope in envelopes:
        total_bytes = _judge(envelope, total_bytes)
        if envelope.id:
            if envelope.id in ids:
                raise IdConflict(envelope.id)
            ids.add(envelope.id)
        if envelope.unique_key is not None:
            keyed = True
            amends = amends or bool(envelope.unique_replace or envelope.unique_debounce_ms)
    if amends and len(envelopes) > 1:
        raise InvalidRequest("unique replacement and debounce require a single-job enqueue")
    return keyed


def _judge(envelope: Envelope, batch_bytes: int) -> int:
    """Refuse what cannot enter; `batch_bytes` and the bytes of this one otherwise."""
    if envelope.id in RESERVED_IDS:
        raise InvalidRequest(f"envelope id is reserved: {envelope.id}")
    check_kind(envelope.kind)
    names = (
        f"{envelope.id}{envelope.queue}{envelope.partition_key}{envelope.rate_class}"
        f"{envelope.fingerprint}{envelope.periodic_schedule_id}{envelope.sticky_worker}"
    )
    # Together they are short and plain nearly always; then each of them is.
    plain = len(names) <= MAX_NAME_BYTES and names.isascii() and "\0" not in names
    if not plain:
        _judge_names(envelope)
    size = len(envelope.payload)
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidRequest(f"payload must be at most {MAX_PAYLOAD_BYTES} bytes")
    if envelope.unique_key is not None:
        if len(envelope.unique_key) > MAX_UNIQUE_KEY_BYTES:
            raise InvalidRequest(f"unique_key must be at most {MAX_UNIQUE_KEY_BYTES} bytes")
        size += len(envelope.unique_key)
    if envelope.headers:
        size += _judge_headers(envelope.headers)
    batch_bytes += size
    if batch_bytes > MAX_BATCH_BYTES:
        raise InvalidRequest(f"enqueue batch data must total at most {MAX_BATCH_BYTES} bytes")
    if (
        envelope.schema_version | envelope.weight | envelope.priority | envelope.max_attempts
    ) & _UNUSUAL_INT32 or (
        envelope.scheduled_at_ms
        | envelope.delay_ms
        | envelope.timeout_ms
        | envelope.deadline_ms
        | envelope.retention_ms
        | envelope.periodic_tick_ms
    ) & _UNUSUAL_MS:
        _judge_numbers(envelope)
    if (
        envelope.unique_key is not None
        or envelope.unique_window_ms
        or envelope.unique_replace
        or envelope.unique_debounce_ms
    ):
        _judge_uniqueness(envelope)
    if envelope.tags:
        _judge_tags(envelope.tags)
    if envelope.pending and envelope.scheduled_at_ms:
        raise InvalidRequest("pending jobs cannot also set scheduled_at_ms")
    if envelope.delay_ms and (envelope.pending or envelope.scheduled_at_ms):
        raise InvalidRequest("delay_ms excludes pending and scheduled_at_ms")
    if not plain:
        check_characters("sticky_worker", envelope.sticky_worker)
        if len(envelope.sticky_worker) > MAX_NAME_BYTES or not envelope.sticky_worker.isascii():
            raise InvalidRequest(f"sticky_worker must be at most {MAX_NAME_BYTES} ASCII bytes")
    if bool(envelope.periodic_schedule_id) != (envelope.periodic_tick_ms > 0):
        raise InvalidRequest(
            "periodic_schedule_id and positive periodic_tick_ms must be set together"
        )
    return batch_bytes


def _judge_names(envelope: Envelope) -> None:
    check_name("envelope id", envelope.id)
    check_name("queue", envelope.queue)
    check_name("partition_key", envelope.partition_key)
    check_name("rate_class", envelope.rate_class)
    check_name("fingerprint", envelope.fingerprint)
    check_name("periodic_schedule_id", envelope.periodic_schedule_id)


def _judge_headers(headers: dict[str, str]) -> int:
    if len(headers) > MAX_HEADERS:
        raise InvalidRequest(f"headers must contain at most {MAX_HEADERS} values")
    text = "".join(headers) + "".join(headers.values())
    check_characters("headers", text)
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_HEADERS_BYTES:
        raise InvalidRequest(f"headers must total at most {MAX_HEADERS_BYTES} bytes")
    return size


def _judge_numbers(envelope: Envelope) -> None:
    check_count("schema_version", envelope.schema_version)
    check_count("weight", envelope.weight)
    check_priority(envelope.priority)
    check_count("max_attempts", envelope.max_attempts)
    check_milliseconds("scheduled_at_ms", envelope.scheduled_at_ms)
    check_milliseconds("delay_ms", envelope.delay_ms)
    check_milliseconds("timeout_ms", envelope.timeout_ms)
    check_milliseconds("deadline_ms", envelope.deadline_ms)
    check_milliseconds("retention_ms", envelope.retention_ms)
    if envelope.periodic_tick_ms > 0:
        check_milliseconds("periodic_tick_ms", envelope.periodic_tick_ms)


def _judge_uniqueness(envelope: Envelope) -> None:
    check_milliseconds("unique_window_ms", envelope.unique_window_ms)
    check_milliseconds("unique_debounce_ms", envelope.unique_debounce_ms)
    if envelope.unique_debounce_ms and (not envelope.unique_key or envelope.unique_window_ms):
        raise InvalidRequest("unique_debounce_ms requires lifecycle unique_key")
    if envelope.unique_replace & ~_REPLACE_ALL:
        raise InvalidRequest("unique_replace contains unknown fields")
    if envelope.unique_replace and not envelope.unique_key:
        raise InvalidRequest("unique_replace requires unique_key")


def _judge_tags(tags: Sequence[str]) -> None:
    if len(tags) > MAX_TAGS:
        raise InvalidRequest(f"tags must contain at most {MAX_TAGS} values")
    for tag in tags:
        if not 1 <= len(tag) <= MAX_TAG_BYTES or not tag.isascii():
            raise InvalidRequest(f"each tag must be 1-{MAX_TAG_BYTES} ASCII bytes")
    check_characters("tags", "".join(tags))
    if len(set(tags)) != len(tags):
        raise InvalidRequest("tags must not contain duplicates")


def _fill_in(prepared: Envelope) -> None:
    if not prepared.queue:
        prepared.queue = DEFAULT_QUEUE
    if not prepared.schema_version:
        prepared.schema_version = 1
    if not prepared.weight:
        prepared.weight = 1
    if not prepared.max_attempts:
        prepared.max_attempts = DEFAULT_MAX_ATTEMPTS
    prepared.tags = tuple(sorted(prepared.tags))


def _refuse_repeated_keys(prepared: Iterable[Envelope]) -> None:
    holders: dict[bytes, str] = {}
    for envelope in prepared:
        key = effective_unique_key(envelope.kind, envelope.unique_key, envelope.unique_exclude_kind)
        if key is not None and (holder := holders.setdefault(key, envelope.id)) != envelope.id:
            raise DuplicateJob(holder, key=key)
