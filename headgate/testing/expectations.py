"""What a test expects to have been enqueued."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.client.task import Task
from headgate.model.job import Job, JobFilter
from headgate.model.lifecycle import LIVE
from headgate.store.store import Store

_PAGE: Final = 200
_SHOWN: Final = 20


async def find_enqueued(
    store: Store,
    task: Task[Any] | str,
    payload: Any = None,
    **fields: Any,
) -> list[Job]:
    """The unfinished jobs of a task or kind, the first enqueued first, with their payloads.

    `payload` is compared as a value: every field it names must be equal in the job's payload;
    None asks for nothing. `fields` are fields of `Job` such as `queue`, `partition_key`, `state`,
    `priority`, `scheduled_at_ms` or `tags`, and must be equal.
    """
    kinds = task.kinds if isinstance(task, Task) else (task,)
    return [
        job
        for kind in kinds
        for job in await _unfinished(store, kind)
        if _matches(job, task, payload, fields)
    ]


async def assert_enqueued(
    store: Store,
    task: Task[Any] | str,
    payload: Any = None,
    *,
    times: int | None = None,
    **fields: Any,
) -> list[Job]:
    """The jobs that `find_enqueued` finds; fails when there are none, or not as many as `times`.

    The failure lists what is there instead.
    """
    found = await find_enqueued(store, task, payload, **fields)
    if (not found) if times is None else len(found) != times:
        expected = "a job" if times is None else f"{times} jobs"
        raise AssertionError(
            f"expected {expected} {_described(task, payload, fields)}, found {len(found)};"
            f" unfinished jobs: {await _listed(store)}"
        )
    return found


async def refute_enqueued(
    store: Store, task: Task[Any] | str, payload: Any = None, **fields: Any
) -> None:
    """Fails when there is an unfinished job like this."""
    await assert_enqueued(store, task, payload, times=0, **fields)


async def _unfinished(store: Store, kind: str | None) -> list[Job]:
    jobs: list[Job] = []
    for state in LIVE:
        cursor: int | None = None
        while True:
            where = JobFilter(kind=kind, state=state)
            page = await store.inspection.jobs(where, cursor=cursor, limit=_PAGE)
            jobs += page.jobs
            if page.next_cursor is None:
                break
            cursor = int(page.next_cursor)
    jobs.sort(key=lambda job: (job.enqueued_at_ms, job.id))
    found = [await store.inspection.job(job.id, include_payload=True) for job in jobs]
    return [job for job in found if job is not None]


def _matches(job: Job, task: Task[Any] | str, payload: Any, fields: Mapping[str, Any]) -> bool:
    if any(_plain(getattr(job, name)) != _plain(value) for name, value in fields.items()):
        return False
    if payload is None:
        return True
    assert isinstance(job.payload, bytes)
    found = _values(job.payload, task, job.schema_version)
    expected = _builtins(payload)
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(name in found and found[name] == value for name, value in expected.items())
    return bool(found == expected)


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, list | tuple | set | frozenset) else value


def _values(payload: bytes, task: Task[Any] | str, version: int) -> Any:
    if isinstance(task, Task) and task.takes_payload:
        return _builtins(task.decode(payload, version))
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return payload


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=(bytes,))


def _described(task: Task[Any] | str, payload: Any, fields: Mapping[str, Any]) -> str:
    kind = task.kind if isinstance(task, Task) else task
    told = [f"of kind {kind}"]
    if payload is not None:
        told.append(f"with payload {payload!r}")
    told += [f"with {name} {value!r}" for name, value in fields.items()]
    return " ".join(told)


async def _listed(store: Store) -> str:
    jobs = await _unfinished(store, None)
    shown = [f"{job.kind} in {job.queue} ({job.state}) {job.payload!r}" for job in jobs[:_SHOWN]]
    if len(jobs) > _SHOWN:
        shown.append(f"and {len(jobs) - _SHOWN} more")
    return "; ".join(shown) or "none"
