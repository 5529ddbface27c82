"""An operator against somebody who is faster: what is told is what is so, never a guess."""

import pytest

from headgate.model.conditions import Facts
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.lifecycle import DELETED, OperatorAction, State, apply
from headgate.model.operators import refusal
from headgate.store.store import Store
from tests.store.journeys import FAR, bring
from tests.store.races import overtaken
from tests.store.rows import Observer, assert_lanes, job_row, state_of
from tests.store.test_control import ACTIONS, EVENTS, row_of


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_lost_race_is_told_with_the_state_that_it_left(
    store: Store, observer: Observer, headgate_database: str, action: OperatorAction
) -> None:
    """While the action waits for the row, somebody else moves the job."""
    source, target = {
        OperatorAction.PROMOTE: (State.PENDING, State.CANCELLED),
        OperatorAction.RETRY: (State.ARCHIVED, State.AVAILABLE),
        OperatorAction.CANCEL: (State.AVAILABLE, State.COMPLETED),
        OperatorAction.DELETE: (State.AVAILABLE, State.RUNNING),
        OperatorAction.RESCHEDULE: (State.SCHEDULED, State.AVAILABLE),
        OperatorAction.EDIT_PAYLOAD: (State.AVAILABLE, State.RUNNING),
    }[action]
    job_id = await bring(store, observer, Envelope(kind="mail"), source)
    answer = await overtaken(
        observer, headgate_database, ACTIONS[action](store.control, job_id), job_id, target
    )
    assert isinstance(answer, InvalidRequest)
    assert answer.message == refusal(action, job_id, target).message
    assert await state_of(observer, job_id) == target


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_race_that_ends_well(
    store: Store, observer: Observer, headgate_database: str, action: OperatorAction
) -> None:
    """Somebody moves the job, while the action waits, to where the action is defined from."""
    source, target = {
        OperatorAction.PROMOTE: (State.CANCELLED, State.PENDING),
        OperatorAction.RETRY: (State.RUNNING, State.ARCHIVED),
        OperatorAction.CANCEL: (State.ARCHIVED, State.RUNNING),
        OperatorAction.DELETE: (State.RUNNING, State.RETRYABLE),
        OperatorAction.RESCHEDULE: (State.RUNNING, State.RETRYABLE),
        OperatorAction.EDIT_PAYLOAD: (State.RUNNING, State.AVAILABLE),
    }[action]
    job_id = await bring(store, observer, Envelope(kind="mail"), source)
    answer = await overtaken(
        observer, headgate_database, ACTIONS[action](store.control, job_id), job_id, target
    )
    assert answer is None
    if action is OperatorAction.DELETE:
        assert await job_row(observer, job_id) is None
    elif action is OperatorAction.RESCHEDULE:
        assert (await row_of(observer, job_id))["scheduled_at_ms"] == FAR + 1
    elif action is OperatorAction.EDIT_PAYLOAD:
        assert (await row_of(observer, job_id))["payload"] == b"new"
    else:
        assert await state_of(observer, job_id) == apply(target, EVENTS[action], Facts())
    await assert_lanes(observer)


async def test_a_job_that_is_deleted_meanwhile_is_not_found(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail"), State.AVAILABLE)
    answer = await overtaken(
        observer, headgate_database, store.control.cancel(job_id), job_id, DELETED
    )
    assert str(answer) == f"not found: job {job_id}"
