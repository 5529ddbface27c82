"""Every command over the control API, in a terminal, on a real installation."""

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import asyncpg
import pytest
from typer.main import get_command

from headgate import Headgate as Application
from headgate import Keyring, PayloadEncryption, Workflow
from headgate.cli.main import application
from headgate.local.connection import blocking
from tests.cli.conftest import Headgate, Place, until

Prepare = Callable[[Place], object]

NOUNS: Final = (
    "audit",
    "duties",
    "jobs",
    "limits",
    "operations",
    "periodic",
    "quarantine",
    "queues",
    "rate-classes",
    "workers",
    "workflows",
)
ELSEWHERE: Final = {"jobs import"}


def nothing(place: Place) -> None: ...


def job(state: str = "") -> Prepare:
    def prepare(place: Place) -> None:
        place.enqueue("j", pending=state == "pending", tags=["t"])
        if state == "cancelled":
            place.api.send("POST", "/jobs/j/cancel")

    return prepare


def scheduled(place: Place) -> None:
    place.enqueue("j", scheduled_at_ms=253402300000000)


def finished(place: Place) -> None:
    place.enqueue("j", kind="quick", queue="quick", retention_ms=3_600_000)
    until(lambda: place.state("j") == "completed")


def sealed(place: Place) -> None:
    encryption = PayloadEncryption(Keyring("k1", {"k1": bytes(32)}))

    async def enqueue() -> None:
        async with Application(dsn=place.dsn) as app:

            @app.task("secret", encryption=encryption)
            def secret(payload: str) -> None: ...

            await secret.enqueue("for few", id="j", queue="idle")

    blocking(enqueue())


def workflow(kind: str = "idle") -> Prepare:
    async def enqueue(dsn: str) -> None:
        async with Application(dsn=dsn, workflows=True) as app:

            @app.task("bad")
            def bad() -> None: ...

            graph = Workflow("w", poll_interval_ms=50)
            first = graph.add(bad.job(queue="quick" if kind == "bad" else "idle"), name="first")
            graph.add(bad.job(queue="quick"), name="second", after=first)
            await app.enqueue_workflow(graph)

    def prepare(place: Place) -> None:
        blocking(enqueue(place.dsn))
        if kind == "bad":
            until(lambda: place.state("w:coordinator") == "archived")

    return prepare


def operation(place: Place) -> None:
    place.enqueue("j")
    body = {"action": "cancel", "selector": {"queue": "idle"}}
    OPERATION.append(place.api.send("POST", "/jobs/bulk", body)["id"])


def full_queue(place: Place) -> None:
    for number in range(5):
        place.enqueue(f"j{number}")


def rate_class(place: Place) -> None:
    place.api.send("PUT", "/rate-classes/smtp", {"limit": 5, "window_ms": 60_000})


def limit(place: Place) -> None:
    body = {"queue": "idle", "max_concurrent": 2, "on_saturated": "queue"}
    place.api.send("PUT", "/concurrency-limits/two", body)


def schedule(place: Place) -> None:
    place.api.send("PUT", "/periodic/nightly", {"kind": "none", "spec": "0 3 * * *"})


def event(place: Place) -> None:
    body = {"kind": "none", "spec": "@every:50", "queue": "idle"}
    place.api.send("PUT", "/periodic/often", body)
    until(lambda: place.api.get("/periodic/often/enqueue-events")["events"])
    place.api.send("DELETE", "/periodic/often")


def quarantined(place: Place) -> None:
    async def put() -> None:
        connection = await asyncpg.connect(place.dsn)
        await connection.execute(
            "INSERT INTO headgate_quarantine (fingerprint, kind, crash_count, quarantined_at_ms,"
            " reason) VALUES ('f00d', 'none', 3, 1767225600000, 'crashed 3 times')"
        )
        await connection.close()

    blocking(put())


def the_worker(place: Place) -> None:
    until(lambda: place.api.get("/workers"))


def paused(place: Place) -> None:
    place.api.send("POST", "/queues/idle/pause")


OPERATION: Final[list[str]] = []


class Session(NamedTuple):
    """What is typed, what is to be seen, and what was there before."""

    arguments: str
    seen: str
    before: Prepare = nothing
    code: int = 0


SESSIONS: Final = (
    Session(
        "jobs list queue:idle tag:t", r"id +kind +queue +state .*\nj +none +idle +available", job()
    ),
    Session("jobs show j --payload", r"payload +\{\}", job()),
    Session("jobs explain j", r"admissible +yes", job()),
    Session("jobs counts --queue idle", r"counts +available 1", job()),
    Session("jobs result j", r'bytes +"done"', finished),
    Session("jobs progress j", r"headgate: no progress for job", job(), 3),
    Session("jobs checkpoint j", r"completed steps +-", job()),
    Session("jobs reveal j", r'plaintext +"for few"', sealed),
    Session("jobs retry j", r"^retried j", job("cancelled")),
    Session("jobs cancel j", r"^cancelled j", job()),
    Session("jobs cancel j k", r"^cancelled 1\nnot k: not found: job k", job(), 4),
    Session("jobs delete j", r"^deleted j", job()),
    Session("jobs promote j", r"^promoted j", job("pending")),
    Session(
        "jobs reschedule j --at 2100-01-01T02:00+02:00",
        r"^rescheduled j to 2100-01-01 00:00:00",
        scheduled,
    ),
    Session("jobs reschedule j --at 4102444800000", r"j to 2100-01-01 00:00:00", scheduled),
    Session("jobs reschedule j --at soon", r"`soon` is no time such as 2026-01-31T08", code=2),
    Session("jobs reschedule j", r"say --at or --in", code=2),
    Session("jobs bulk cancel --queue idle --dry-run", r"^would cancel 5 jobs", full_queue),
    Session(
        "jobs bulk delete --queue idle --older-than 0s --yes", r"is completed: 5 jobs", full_queue
    ),
    Session("queues list", r"queue +unfinished +limit .*\n(.*\n)*idle +1 +- +1 +no", job()),
    Session("queues history idle --bucket 1m", r"at +arrived +completed", job()),
    Session("queues blocked idle", r"reasons .*queue paused 0, rate class 0", job()),
    Session("queues partitions idle", r"partition +waiting", job()),
    Session("queues pause idle", r"^paused idle"),
    Session("queues resume idle", r"^resumed idle", paused),
    Session("queues weight idle 3", r"^idle has weight 3"),
    Session("queues limit idle 7", r"^idle takes 7 unfinished jobs"),
    Session("queues limit idle", r"^idle has no limit"),
    Session("queues sample-memory", r"^sampled \d+ queues"),
    Session("queues delete idle --force --yes", r"is completed: 5 jobs", full_queue),
    Session("workflows list", r"workflow +state .*\nw +", workflow()),
    Session(
        "workflows show w", r"nodes\nname +state .*\nfirst +.*\nsecond +pending +first", workflow()
    ),
    Session("workflows retry w", r"^retried w", workflow("bad")),
    Session("workflows cancel w --yes", r"^cancelled w", workflow()),
    Session("periodic list", r"id +spec .*\nnightly +0 3 \* \* \*", schedule),
    Session("periodic events often", r"recorded +tick +outcome .*\n.*enqueued +accepted", event),
    Session("periodic set x --kind none --spec @every:60000", r"^set x"),
    Session("periodic set x --kind none --spec 99", r"headgate: bad cron `99`", code=4),
    Session("periodic show nightly --payload", r"spec +0 3 \* \* \*", schedule),
    Session("periodic pause nightly", r"^paused nightly", schedule),
    Session("periodic resume nightly", r"^resumed nightly", schedule),
    Session("periodic run nightly", r"^enqueued hg", schedule),
    Session("periodic delete nightly", r"^deleted nightly", schedule),
    Session("rate-classes list", r"name +limit +window .*\nsmtp +5 +1 min +5 +5", rate_class),
    Session("rate-classes show smtp", r"window +1 min", rate_class),
    Session("rate-classes set smtp --limit 9 --window 1s", r"^smtp passes 9 in 1s"),
    Session("rate-classes delete smtp", r"^deleted smtp", rate_class),
    Session("limits list", r"name +queue .*\ntwo +idle +2 +queue", limit),
    Session("limits show two", r"max concurrent +2", limit),
    Session("limits set two --queue idle --max 3", r"^two lets 3 of a partition of idle run"),
    Session("limits delete two", r"^deleted two", limit),
    Session("quarantine list", r"f00d +none +3 +2026-01-01 00:00:00 +crashed", quarantined),
    Session("quarantine release f00d", r"^released f00d", quarantined),
    Session("operations list", r"id +action +selector +dry run +status", operation),
    Session("operations show {operation}", r"status +(pending|running|completed)", operation),
    Session("operations wait {operation}", r"is completed: 1 jobs", operation),
    Session("operations cancel nobody", r"not found: operation nobody", code=3),
    Session("workers list", r"the-worker +running", the_worker),
    Session("workers cluster", r"queues\nqueue +live workers", the_worker),
    Session("workers signal the-worker none", r"^told the-worker: none", the_worker),
    Session("duties list", r"name +holder .*\n(.*\n)*.*promoter", the_worker),
    Session("audit list --limit 1", r"POST +/api/v1/queues/\{queue\}/pause +idle +204", paused),
)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda each: each.arguments)
def test_a_session(session: Session, place: Place, headgate: Headgate) -> None:
    session.before(place)
    arguments = session.arguments.format(operation=OPERATION[-1] if OPERATION else "")
    words = arguments.replace("queue:idle tag:t", "queue:idle\0tag:t").split(" ")
    terminal = headgate(*(word.replace("\0", " ") for word in words))
    output = terminal.end()
    assert re.search(session.seen, output, re.M), output
    assert terminal.code == session.code


def test_every_command_has_a_session() -> None:
    group: Any = get_command(application)
    tried = {" ".join(each.arguments.split()[:2]) for each in SESSIONS} | ELSEWHERE
    for noun in NOUNS:
        commands = group.get_command(None, noun).list_commands(None)
        assert {f"{noun} {name}" for name in commands} <= tried


@pytest.mark.parametrize("noun", NOUNS)
def test_the_helps_speak_with_one_voice(noun: str) -> None:
    group: Any = get_command(application)
    found = group.get_command(None, noun)
    commands = (found.get_command(None, name) for name in found.list_commands(None))
    for each in (found, *commands):
        first = (each.help or "").splitlines()[0]
        assert first[0].isupper(), each.name
        assert first.endswith("."), each.name
        assert not first.split()[0].endswith("s"), f"{each.name}: an imperative"
        for parameter in each.params:
            if getattr(parameter, "help", None):
                assert parameter.help[0].isupper() or parameter.help[0] == "`", parameter.name
                assert parameter.help.rstrip().endswith((".", "]")), parameter.name


def test_programs_get_what_the_api_answered(place: Place, headgate: Headgate) -> None:
    place.enqueue("j")
    terminal = headgate("jobs", "list", "-o", "json")
    (shown,) = json.loads(terminal.end())
    assert shown == place.api.get("/jobs")["jobs"][0]
    assert headgate("queues", "pause", "idle", "-o", "json").end() == ""


def test_a_list_goes_on_over_pages_up_to_its_limit(place: Place, headgate: Headgate) -> None:
    jobs = [{"kind": "none", "payload": "", "queue": "idle"} for _ in range(250)]
    place.api.send("POST", "/jobs/batch", {"jobs": jobs})
    for limit in (3, 230):
        output = headgate("jobs", "list", "--limit", str(limit), "-o", "json").end()
        assert len(json.loads(output)) == limit


def test_what_is_dangerous_asks_first(place: Place, headgate: Headgate) -> None:
    place.enqueue("j")
    terminal = headgate("jobs", "bulk", "delete", "--queue", "idle")
    terminal.until(r"Delete 1 jobs\? \[y/N\]")
    terminal.type("n\n")
    terminal.end()
    assert (terminal.code, place.state("j")) == (1, "available")
    terminal = headgate("jobs", "bulk", "delete", "--queue", "idle")
    terminal.until(r"\[y/N\]")
    terminal.type("y\n")
    assert "is completed: 1 jobs" in terminal.end()


def test_a_view_renews_itself_until_it_is_interrupted(place: Place, headgate: Headgate) -> None:
    terminal = headgate("jobs", "counts", "--queue", "idle", "--watch", "--every", "0.1")
    terminal.until(r"approximate")
    place.enqueue("j")
    terminal.until(r"available 1")
    terminal.type("\x03")
    terminal.end()
    assert terminal.code == 0


def test_a_change_under_one_key_is_made_once(place: Place, headgate: Headgate) -> None:
    schedule(place)
    answers = {
        headgate("periodic", "run", "nightly", "--idempotency-key", "once").end() for _ in range(2)
    }
    assert len(answers) == 1
    assert len(place.api.get("/jobs", kind="none")["jobs"]) == 1


def test_exit_codes_tell_what_went_wrong(place: Place, headgate: Headgate) -> None:
    place.enqueue("j")
    for arguments, code, seen in (
        (["jobs", "show", "nobody"], 3, "headgate: no such job"),
        (["jobs", "retry", "j"], 4, "operator_retry is only defined from"),
        (["jobs", "show"], 2, "Missing argument"),
        (["rate-classes", "set", "x", "--limit", "1", "--window", "soon"], 2, "no duration"),
        (["jobs", "list", "--api", "http://127.0.0.1:1"], 6, "cannot reach http://127.0.0.1:1"),
        (["jobs", "list", "--api", "ftp://x"], 1, "is no URL such as"),
        (["jobs", "list", "--context", "nowhere"], 1, "not found: context nowhere"),
    ):
        terminal = headgate(*arguments)
        assert seen in terminal.end()
        assert terminal.code == code, arguments


def test_a_job_is_due_in_a_while(place: Place, headgate: Headgate) -> None:
    scheduled(place)
    assert headgate("jobs", "reschedule", "j", "--in", "10m").end().startswith("rescheduled j to")
    job = place.api.get("/jobs/j")
    assert 0 <= job["scheduled_at_ms"] - job["enqueued_at_ms"] - 600_000 < 30_000


def test_names_may_hold_anything(place: Place, headgate: Headgate) -> None:
    place.enqueue("a/b?c #%é")
    terminal = headgate("jobs", "show", "a/b?c #%é")
    assert "a/b?c #%é" in terminal.end()
    assert headgate("jobs", "cancel", "a/b?c #%é").end().startswith("cancelled")
