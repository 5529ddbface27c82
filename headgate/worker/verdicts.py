"""How an attempt ended, from what its handler returned or raised."""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.client.durations import duration_ms
from headgate.client.payloads import UndecodablePayload
from headgate.client.task import Task
from headgate.model.job import Stored
from headgate.model.lifecycle import Outcome
from headgate.worker.failures import failure_text, is_panic
from headgate.worker.outcomes import (
    RATE_LIMITED_DELAY_MS,
    ControlFlow,
    LeaseLost,
    RateLimited,
    Retry,
    Revoke,
    Skip,
    Snooze,
    StaleCheckpoint,
)
from headgate.worker.record import stored_result
from headgate.worker.stop import Stop

DEADLINE_EXCEEDED: Final = "deadline exceeded"
RELEASED: Final = "released: worker shutdown"
NO_HANDLER: Final = "no handler registered"
NO_HANDLER_SNOOZE_MS: Final = 30_000

logger = logging.getLogger("headgate.worker")


class Verdict(msgspec.Struct, kw_only=True, frozen=True):
    """What is to become of the job; without an outcome nothing is reported of the attempt."""

    outcome: Outcome | None
    error: str | None = None
    delay_ms: int | None = None
    result: Stored | None = None


SUCCESS: Final = Verdict(outcome=Outcome.SUCCESS)
UNREPORTED: Final = Verdict(outcome=None)
UNKNOWN_KIND: Final = Verdict(
    outcome=Outcome.SNOOZE, error=NO_HANDLER, delay_ms=NO_HANDLER_SNOOZE_MS
)


def of_return(returned: Any, result: Stored | None) -> Verdict:
    """Of a handler that returned; `result` is what it has set before.

    Raises `InvalidRequest` for a result that cannot be kept.
    """
    if isinstance(returned, ControlFlow):
        return of_control_flow(returned)
    if returned is not None:
        result = stored_result(returned)
    return SUCCESS if result is None else Verdict(outcome=Outcome.SUCCESS, result=result)


def of_stop(stop: Stop, limit_ms: int) -> Verdict:
    """Of an attempt that was told to end; `limit_ms` is the time it had."""
    match stop:
        case Stop.LEASE_LOST:
            return UNREPORTED
        case Stop.RELEASED:
            return Verdict(outcome=Outcome.RATE_LIMITED, error=RELEASED)
        case Stop.DEADLINE:
            return Verdict(outcome=Outcome.SKIP, error=DEADLINE_EXCEEDED)
        case Stop.TIMEOUT:
            return Verdict(outcome=Outcome.RETRY, error=f"attempt timed out after {limit_ms} ms")


def of_raise(
    raised: BaseException, task: Task[Any], job_id: str, context: Callable[[], Any]
) -> Verdict:
    """Of a handler that raised."""
    raised = _only_cause(raised)
    if isinstance(raised, ControlFlow) and not isinstance(raised, StaleCheckpoint):
        return of_control_flow(raised)
    if isinstance(raised, UndecodablePayload | StaleCheckpoint):
        logger.warning("job %s (%s): %s", job_id, task.kind, raised)
        return Verdict(outcome=Outcome.UNDECODABLE, error=str(raised))
    text = failure_text(raised)
    delay_ms = None
    if not is_panic(raised) and isinstance(raised, Exception):
        if not _is_failure(task, raised):
            logger.info("job %s (%s) comes back: %s", job_id, task.kind, text)
            return Verdict(outcome=Outcome.RATE_LIMITED, delay_ms=RATE_LIMITED_DELAY_MS)
        delay_ms = _retry_delay_ms(task, raised, context)
    level = logging.ERROR if is_panic(raised) else logging.INFO
    logger.log(level, "job %s (%s) failed: %s", job_id, task.kind, text)
    return Verdict(outcome=Outcome.RETRY, error=text, delay_ms=delay_ms)


def of_control_flow(flow: ControlFlow) -> Verdict:
    match flow:
        case Snooze(delay_ms=delay_ms):
            return Verdict(outcome=Outcome.SNOOZE, delay_ms=delay_ms)
        case Retry(reason=reason, delay_ms=delay_ms):
            return Verdict(outcome=Outcome.RETRY, error=reason, delay_ms=delay_ms)
        case Skip(reason=reason):
            return Verdict(outcome=Outcome.SKIP, error=reason)
        case Revoke():
            return Verdict(outcome=Outcome.REVOKE)
        case RateLimited(delay_ms=delay_ms):
            return Verdict(outcome=Outcome.RATE_LIMITED, delay_ms=delay_ms)
        case LeaseLost():
            return UNREPORTED
        case _:
            return Verdict(outcome=Outcome.RETRY, error=failure_text(flow))


def _is_failure(task: Task[Any], raised: Exception) -> bool:
    if task.is_failure is None:
        return True
    try:
        return bool(task.is_failure(raised))
    except Exception:
        logger.exception("is_failure of task %s", task.kind)
        return True


def _retry_delay_ms(task: Task[Any], raised: Exception, context: Callable[[], Any]) -> int | None:
    if task.retry_policy is None:
        return None
    try:
        return duration_ms("retry delay", task.retry_policy(context(), raised))
    except Exception:
        logger.exception("retry_policy of task %s", task.kind)
        return None


def _only_cause(raised: BaseException) -> BaseException:
    """What a task group wrapped, when it wrapped one thing: it may be a way to end the attempt."""
    while isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) == 1:
        raised = raised.exceptions[0]
    return raised
