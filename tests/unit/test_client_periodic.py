"""Declaring schedules: what is understood, and what is refused when the module is imported."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headgate import Headgate, InvalidRequest, NotOpen, RegistrationError
from headgate.model.periodic import ScheduleDefinition


class Order(msgspec.Struct):
    number: int


def test_a_task_with_a_schedule() -> None:
    app = Headgate()

    @app.periodic("0 9 * * *", tz="America/New_York", on_missed="backfill", backfill_limit=5)
    @app.task(
        "report",
        version=2,
        queue="slow",
        partition_key="tenant",
        rate_class="mail",
        weight=3,
        priority=4,
        max_attempts=5,
        timeout=timedelta(seconds=6),
        retention_ms=7,
        tags=["b", "a"],
    )
    async def report() -> None: ...

    assert report is app.tasks["report"]
    assert app.schedules == {
        "report": ScheduleDefinition(
            id="report",
            kind="report",
            spec="CRON_TZ=America/New_York 0 9 * * *",
            payload=b"{}",
            schema_version=2,
            queue="slow",
            partition_key="tenant",
            rate_class="mail",
            weight=3,
            priority=4,
            max_attempts=5,
            timeout_ms=6_000,
            retention_ms=7,
            tags=("b", "a"),
            on_missed="backfill",
            backfill_limit=5,
        )
    }


def test_a_function_becomes_a_task() -> None:
    app = Headgate()

    @app.periodic(every=timedelta(minutes=5), queue="slow", retention_ms=9)
    def tidy_up() -> None: ...

    @app.periodic(every_ms=500, kind="mail:flush", paused=True)
    def flush() -> None: ...

    assert tidy_up is app.tasks["tidy_up"]
    assert app.schedules["tidy_up"].spec == "@every:300000"
    assert (app.schedules["tidy_up"].queue, app.schedules["tidy_up"].retention_ms) == ("slow", 9)
    assert app.tasks["tidy_up"].queue == "slow"
    assert app.schedules["mail:flush"].spec == "@every:500"
    assert app.schedules["mail:flush"].paused


def test_several_schedules_of_one_task() -> None:
    app = Headgate()

    @app.periodic("0 9 * * *", id="first", payload=Order(1), queue="early")
    @app.periodic("0 21 * * *", id="second", payload={"number": 2})
    @app.task("order", queue="orders")
    def order(order: Order) -> None: ...

    assert [each.payload for each in app.schedules.values()] == [b'{"number":2}', b'{"number":1}']
    assert {each.kind for each in app.schedules.values()} == {"order"}
    assert app.queues == ("early", "orders"), "a worker serves those of the schedules too"


def periodic(*args: Any, **kwargs: Any) -> Callable[[], object]:
    def declare() -> object:
        app = Headgate()

        def report() -> None: ...

        return app.periodic(*args, **kwargs)(report)

    return declare


def twice() -> object:
    app = Headgate()
    task = app.task("report")(lambda: None)
    app.periodic("0 9 * * *")(task)
    return app.periodic("0 10 * * *")(task)


def another_ones_task() -> object:
    task = Headgate().task("report")(lambda: None)
    return Headgate().periodic("0 9 * * *")(task)


def a_second_kind() -> object:
    app = Headgate()
    return app.periodic("0 9 * * *", kind="other")(app.task("report")(lambda: None))


def a_payload_is_missing() -> object:
    app = Headgate()

    @app.periodic("0 9 * * *")
    def order(order: Order) -> None: ...

    return order


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (periodic(), "schedule: give a cron expression or every, one of them"),
        (
            periodic("0 9 * * *", every_ms=5),
            "schedule: give a cron expression or every, one of them",
        ),
        (periodic(every=timedelta(0)), "every must be at least 1 ms"),
        (periodic(every=5), "every is a timedelta"),
        (periodic("0 9 * *"), "schedule report: .*want 5 fields"),
        (periodic("0 9 30 2 *"), "has no future occurrence"),
        (periodic("0 9 * * *", tz="Mars/Phobos"), "unknown timezone `Mars/Phobos`"),
        (periodic(every_ms=5, tz="UTC"), "takes no CRON_TZ"),
        (periodic("0 9 * * *", on_missed="never"), r"on_missed must be skip\|run_once\|backfill"),
        (periodic("0 9 * * *", backfill_limit=-1), "backfill_limit must be >= 0"),
        (periodic("0 9 * * *", id=""), "schedule id must not be empty"),
        (periodic("0 9 * * *", id="a" * 201), "schedule id must be at most 200 bytes"),
        (periodic("0 9 * * *", kind="bad kind"), "invalid kind `bad kind`"),
        (periodic("0 9 * * *", payload=5), "the handler takes none"),
        (periodic("0 9 * * *", queue="q" * 256), "queue must be at most 255 bytes"),
        (periodic("0 9 * * *", delay_ms=5), "schedule report: unknown option: delay_ms"),
        (twice, "schedule report: exists already"),
        (another_ones_task, "task report is not one of this application"),
        (a_second_kind, "task report has its kind already"),
        (a_payload_is_missing, "payload of order"),
    ],
)
def test_what_could_not_be_enqueued_is_refused_at_once(
    declare: Callable[[], object], message: str
) -> None:
    with pytest.raises(RegistrationError, match=message):
        declare()


async def test_syncing_needs_a_store() -> None:
    app = Headgate()
    await app.sync_schedules()
    app.periodic("0 9 * * *", kind="report")(lambda: None)
    with pytest.raises(NotOpen):
        await app.sync_schedules()


async def test_pruning_needs_a_name() -> None:
    with pytest.raises(InvalidRequest, match="give the application a name"):
        await Headgate().sync_schedules(prune=True)
