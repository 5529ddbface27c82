"""Metrics: the numbers of the store, as Prometheus reads them."""

import re
from typing import Any, Final

import pytest

from headgate.api import metrics
from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.model.exposition import Gauge, render
from headgate.model.job import WorkerBeat
from headgate.store.store import Store
from tests.contract.client import Answer, Client
from tests.contract.jobs import enqueue
from tests.worker.waiting import eventually

SAMPLE: Final = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)+)\})? (\S+)')
UNBOUNDED: Final = {"job", "job_id", "id", "fingerprint", "partition", "partition_key", "error"}

Samples = dict[tuple[str, str], float]


def parsed(answer: Answer) -> Samples:
    """The samples by name and labels; every line is one, or says something about one."""
    assert (answer.status, answer.headers["content-type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    text = answer.body.decode()
    assert text.endswith("\n")
    samples: Samples = {}
    described: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            described.add(name) if word == "TYPE" and rest == "gauge" else None
            continue
        match = SAMPLE.fullmatch(line)
        assert match is not None, line
        assert match[1] in described
        assert (match[1], match[2] or "") not in samples
        samples[match[1], match[2] or ""] = float(match[3])
    return samples


@pytest.fixture
async def root(store: Store) -> Client:
    return Client(create_app(store), prefix="")


async def test_an_empty_installation_has_metrics(root: Client) -> None:
    samples = parsed(await root.get("/metrics"))
    assert samples["headgate_workers", 'status="live"'] == 0
    assert samples["headgate_quarantined_fingerprints", ""] == 0
    assert samples["headgate_metrics_truncated", 'list="queues"'] == 0


async def test_what_queues_workers_and_rate_classes_say(
    root: Client, client: Client, store: Store
) -> None:
    for number in range(3):
        await enqueue(client, f"x-{number}", queue="mail", rate_class="r", partition_key="p")
    await client.request("POST", "/jobs/x-0/cancel")
    await client.request("PUT", "/queues/mail/enqueue-limit", json={"max_unfinished_jobs": 9})
    await client.request("POST", "/queues/other/pause")
    await client.request("PUT", "/rate-classes/r", json={"limit": 7, "window_ms": 1000})
    await store.workers.heartbeat(
        WorkerBeat(
            worker_id="w-1",
            host="h",
            pid=1,
            queues=("mail",),
            concurrency=4,
            inflight=1,
            polls=128,
            empty_polls=32,
        )
    )
    samples = parsed(await root.get("/metrics"))
    expected: dict[tuple[str, str], Any] = {
        ("headgate_queue_jobs", 'queue="mail",state="available"'): 2,
        ("headgate_queue_jobs", 'queue="mail",state="cancelled"'): 1,
        ("headgate_queue_unfinished_jobs", 'queue="mail"'): 2,
        ("headgate_queue_unfinished_jobs", 'queue="other"'): 0,
        ("headgate_queue_max_unfinished_jobs", 'queue="mail"'): 9,
        ("headgate_queue_time_to_drain_seconds", 'queue="mail"'): float("inf"),
        ("headgate_queue_time_to_drain_seconds", 'queue="other"'): 0,
        ("headgate_queue_paused", 'queue="mail"'): 0,
        ("headgate_queue_paused", 'queue="other"'): 1,
        ("headgate_queue_live_workers", 'queue="mail"'): 1,
        ("headgate_queue_live_workers", 'queue="other"'): 0,
        ("headgate_workers", 'status="live"'): 1,
        ("headgate_worker_inflight", 'worker="w-1"'): 1,
        ("headgate_worker_capacity", 'worker="w-1"'): 4,
        ("headgate_worker_utilization_ratio", 'worker="w-1"'): 0.25,
        ("headgate_worker_empty_poll_ratio", 'worker="w-1"'): 0.25,
        ("headgate_rate_class_tokens_available", 'rate_class="r"'): 7,
        ("headgate_rate_class_jobs_waiting", 'rate_class="r"'): 2,
        ("headgate_rate_class_paused", 'rate_class="r"'): 0,
    }
    assert {each: samples.get(each) for each in expected} == expected
    assert ("headgate_queue_max_unfinished_jobs", 'queue="other"') not in samples
    assert samples["headgate_queue_arrival_jobs_per_second", 'queue="mail"'] > 0
    assert samples["headgate_queue_oldest_available_seconds", 'queue="mail"'] >= 0
    labels = {name for _, pairs in samples for name in re.findall(r'([a-z_]+)="', pairs)}
    assert not labels & UNBOUNDED
    assert "x-1" not in (await root.get("/metrics")).body.decode()


async def test_duties_tell_how_they_get_on(root: Client, store: Store) -> None:
    await store.duties.claim("promoter", "w-1", 60_000)
    await store.duties.claim("archive", "w-2", 60_000)
    await store.duties.report("promoter", "w-1", 60_000, handled=3, done=True, interval_ms=0)
    await eventually(lambda: _late(store))
    await store.duties.release("promoter", "w-1")
    samples = parsed(await root.get("/metrics"))
    promoter = 'duty="promoter"'
    assert samples["headgate_duty_held", promoter] == 0
    assert samples["headgate_duty_held", 'duty="archive"'] == 1
    assert samples["headgate_duty_rows_handled", promoter] == 3
    assert samples["headgate_duty_last_success_timestamp_seconds", promoter] > 1_700_000_000
    assert 0 < samples["headgate_duty_lag_seconds", promoter] < 60
    assert ("headgate_duty_lag_seconds", 'duty="archive"') not in samples


async def _late(store: Store) -> bool:
    [_, promoter] = await store.fleet.duties()
    return bool(promoter.lag_ms)


async def test_names_may_hold_anything(root: Client, client: Client) -> None:
    name = 'a"b\\c\nd é'
    await enqueue(client, "x", queue=name)
    samples = parsed(await root.get("/metrics"))
    assert samples["headgate_queue_unfinished_jobs", 'queue="a\\"b\\\\c\\nd é"'] == 1


async def test_a_list_that_is_too_long_is_said_to_be(
    root: Client, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_PAGES", 1)
    jobs = [{"kind": "t.k", "payload": "e30=", "queue": f"q-{number}"} for number in range(201)]
    await client.request("POST", "/jobs/batch", json={"jobs": jobs})
    samples = parsed(await root.get("/metrics"))
    assert samples["headgate_metrics_truncated", 'list="queues"'] == 1
    assert len([name for name, _ in samples if name == "headgate_queue_unfinished_jobs"]) == 200


async def test_a_viewer_may_read_them(store: Store) -> None:
    guarded = Client(create_app(store, ApiConfig(require_token=True)), prefix="")
    assert (await guarded.get("/metrics")).status == 401


def test_numbers_are_written_as_they_are() -> None:
    gauge = Gauge("g", "A gauge.")
    for value in (0, True, 2.0, 0.25, 1e300, float("inf")):
        gauge.set(value, n=str(len(gauge.samples)))
    assert render([gauge, Gauge("none", "Nothing.")]).decode().splitlines() == [
        "# HELP g A gauge.",
        "# TYPE g gauge",
        'g{n="0"} 0',
        'g{n="1"} 1',
        'g{n="2"} 2',
        'g{n="3"} 0.25',
        f'g{{n="4"}} {int(1e300)}',
        'g{n="5"} +Inf',
    ]
