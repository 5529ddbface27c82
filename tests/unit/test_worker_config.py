"""The settings of a worker and how the environment gives them."""

from typing import Any

import pytest

from headgate import Headgate, InvalidRequest, Store, StoreSettings, Worker, WorkerConfig
from headgate.model.retention import RetentionPeriods


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"queues": ("a", "")}, "a queue must not be empty"),
        ({"queues": ("a", "a")}, "queues must not contain duplicates"),
        ({"queues": ("a\0",)}, "queue must not contain NUL"),
        ({"concurrency": 0}, "concurrency must be between 1 and"),
        ({"lease_ms": 99}, "lease_ms must be between 100 and"),
        ({"poll_floor_ms": 0}, "poll_floor_ms must be"),
        ({"poll_floor_ms": 10, "poll_ceiling_ms": 9}, "poll_ceiling_ms must be between 10 and"),
        ({"poll_multiplier": 0.5}, "poll_multiplier must be >= 1"),
        ({"poll_jitter": 1.5}, "poll_jitter must be between 0 and 1"),
        ({"shutdown_timeout_ms": -1}, "shutdown_timeout_ms must be"),
        ({"worker_id": "é"}, "worker_id must be at most 255 ASCII bytes"),
        ({"worker_id": "x" * 256}, "worker_id must be at most 255 bytes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        WorkerConfig(**given)


def test_the_environment_gives_what_is_not_given() -> None:
    environment = {
        "HEADGATE_QUEUES": "mail, slow",
        "HEADGATE_CONCURRENCY": "3",
        "HEADGATE_LEASE_MS": "900",
        "HEADGATE_PROCESSES": "2",
        "HEADGATE_MEMORY_LIMIT_BYTES": "500000000",
        "HEADGATE_WORKER_ID": "w1",
        "HEADGATE_KEEP_DEAD_LETTERS_MS": "60000",
        "HEADGATE_KEEP_AUDIT_MS": "0",
    }
    config = WorkerConfig.from_environment(environment, given={"concurrency": 5})
    assert config == WorkerConfig(
        queues=("mail", "slow"),
        concurrency=5,
        lease_ms=900,
        processes=2,
        memory_limit_bytes=500_000_000,
        worker_id="w1",
        retention=RetentionPeriods(dead_letters_ms=60_000, audit_ms=0),
    )
    assert WorkerConfig.from_environment({}) == WorkerConfig()


def test_a_variable_that_is_no_number_is_named() -> None:
    with pytest.raises(InvalidRequest, match="HEADGATE_CONCURRENCY is not a number"):
        WorkerConfig.from_environment({"HEADGATE_CONCURRENCY": "many"})
    with pytest.raises(InvalidRequest, match="HEADGATE_KEEP_AUDIT_MS is not a number"):
        WorkerConfig.from_environment({"HEADGATE_KEEP_AUDIT_MS": "90 days"})
    with pytest.raises(InvalidRequest, match="audit_ms is too large"):
        WorkerConfig.from_environment({"HEADGATE_KEEP_AUDIT_MS": "9" * 18})


def test_a_worker_serves_the_queues_of_its_application_unless_given() -> None:
    app = Headgate(workflows=True)
    store = Store(StoreSettings(dsn="postgresql://nowhere/none"))

    @app.task("mail", queue="mail")
    async def mail() -> None: ...

    assert Worker(app, store).config.queues == app.queues == ("headgate-workflow", "mail")
    assert Worker(app, store, WorkerConfig(queues=("slow",))).config.queues == ("slow",)
