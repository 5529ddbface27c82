"""Registration: the shapes of handlers, the options of tasks, and what is refused at once."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import msgspec
import pytest

from headgate import (
    Envelope,
    Headgate,
    InvalidRequest,
    JobContext,
    NotOpen,
    RegistrationError,
    Replace,
    Task,
    Unique,
)
from headgate.client.payloads import UndecodablePayload


class Mail(msgspec.Struct):
    to: str
    copies: int = 1


@dataclass
class Point:
    x: int


class Box(TypedDict):
    width: int


@pytest.fixture
def app() -> Headgate:
    return Headgate()


def test_a_handler_may_take_context_and_payload(app: Headgate) -> None:
    @app.task("a")
    async def both(context: JobContext, mail: Mail) -> None: ...

    @app.task("b")
    def named(ctx, mail: Mail) -> None: ...  # type: ignore[no-untyped-def]  # by its name alone

    @app.task("c")
    async def payload_only(mail: Mail) -> None: ...

    @app.task("d")
    async def context_only(ctx: JobContext) -> None: ...

    @app.task("e")
    async def nothing() -> None: ...

    shapes = {
        kind: (task.signature.is_async, task.signature.takes_context, task.takes_payload)
        for kind, task in app.tasks.items()
    }
    assert shapes == {
        "a": (True, True, True),
        "b": (False, True, True),
        "c": (True, False, True),
        "d": (True, True, False),
        "e": (True, False, False),
    }


async def test_a_task_is_still_its_handler(app: Headgate) -> None:
    @app.task("double")
    async def double(number: int) -> int:
        """Doubles."""
        return 2 * number

    assert await double(4) == 8
    assert double.__doc__ == "Doubles."
    assert repr(double) == "<Task double>"


@pytest.mark.parametrize(
    ("payload", "encoded"),
    [
        (Mail("a@b", 2), b'{"to":"a@b","copies":2}'),
        ({"to": "a@b"}, b'{"to":"a@b"}'),
    ],
)
def test_a_payload_is_an_instance_or_its_fields(
    app: Headgate, payload: Any, encoded: bytes
) -> None:
    @app.task("mail", version=3)
    async def mail(payload: Mail) -> None: ...

    job = mail.job(payload)
    assert (job.kind, job.schema_version, job.payload) == ("mail", 3, encoded)
    assert mail.decode(job.payload, 3).to == "a@b"


def test_dataclasses_dictionaries_and_builtins_are_payloads(app: Headgate) -> None:
    @app.task("point")
    async def point(payload: Point) -> None: ...

    @app.task("box")
    async def box(payload: Box) -> None: ...

    @app.task("numbers")
    async def numbers(payload: list[int]) -> None: ...

    @app.task("anything")
    async def anything(payload) -> None: ...  # type: ignore[no-untyped-def]  # that is the case

    assert point.decode(point.job(Point(1)).payload, 1) == Point(1)
    assert box.decode(box.job({"width": 2}).payload, 1) == {"width": 2}
    assert numbers.decode(numbers.job([1, 2]).payload, 1) == [1, 2]
    assert anything.decode(b'{"a":[null]}', 1) == {"a": [None]}


def test_a_wrong_payload_is_refused_before_it_is_enqueued(app: Headgate) -> None:
    @app.task("mail")
    async def mail(payload: Mail) -> None: ...

    @app.task("nothing")
    async def nothing() -> None: ...

    with pytest.raises(InvalidRequest, match="payload of mail: Object missing required field `to`"):
        mail.job({"copies": 1})
    with pytest.raises(InvalidRequest, match="payload of mail is not encodable"):
        mail.job({"to": object()})
    with pytest.raises(InvalidRequest, match="payload of nothing: the handler takes none"):
        nothing.job({"a": 1})


@pytest.mark.parametrize(
    "encoded", [b"", b"{", b"{}", b'{"to":1}', b"\xff", b'{"to":"' + b"[" * 9, b"[" * 100_000]
)
def test_bytes_that_are_no_payload_are_undecodable(app: Headgate, encoded: bytes) -> None:
    @app.task("mail")
    async def mail(payload: Mail) -> None: ...

    with pytest.raises(UndecodablePayload, match="payload"):
        mail.decode(encoded, 1)


def test_a_payload_type_that_raises_in_decoding_is_undecodable(app: Headgate) -> None:
    class Strange(msgspec.Struct):
        def __post_init__(self) -> None:
            raise KeyError("strange")

    @app.task("strange")
    async def strange(payload: Strange) -> None: ...

    with pytest.raises(UndecodablePayload, match="strange"):
        strange.decode(b"{}", 1)


def test_older_versions_are_upcast_and_others_are_undecodable(app: Headgate) -> None:
    @app.task("mail", version=3)
    async def mail(payload: Mail) -> None: ...

    @mail.upcast(2)
    def from_two(encoded: bytes) -> Mail:
        return Mail(msgspec.json.decode(encoded)["recipient"])

    assert mail.decode(b'{"recipient":"a@b"}', 2) == Mail("a@b")
    with pytest.raises(UndecodablePayload, match="schema version 1 is unknown, the handler has 3"):
        mail.decode(b"{}", 1)
    with pytest.raises(UndecodablePayload, match="upcast from version 2"):
        mail.decode(b"{}", 2)
    with pytest.raises(RegistrationError, match="upcast from version 3"):
        mail.upcast(3)
    with pytest.raises(RegistrationError, match="upcast from version 2 exists"):
        mail.upcast(2, to=3)


def test_upcasts_lead_from_version_to_version(app: Headgate) -> None:
    @app.task("mail", version=4)
    async def mail(payload: Mail) -> None: ...

    @mail.upcast(1, to=2)
    def with_a_recipient(encoded: bytes) -> dict[str, str]:
        return {"recipient": msgspec.json.decode(encoded)["address"]}

    @mail.upcast(3)
    def named_to(encoded: bytes) -> dict[str, str]:
        return {"to": msgspec.json.decode(encoded)["recipient"]}

    with pytest.raises(RegistrationError, match="from version 1 leads to 2, and nothing leads on"):
        app.check_complete()
    with pytest.raises(UndecodablePayload, match="schema version 2 is unknown"):
        mail.decode(b'{"address":"a@b"}', 1)

    @mail.upcast(2, to=3)
    def in_small_letters(encoded: bytes) -> bytes:
        return encoded.lower()

    app.check_complete()
    assert mail.decode(b'{"address":"A@B"}', 1) == Mail("a@b")
    assert mail.decode(b'{"recipient":"A@B"}', 2) == Mail("a@b")
    assert mail.decode(b'{"recipient":"A@B"}', 3) == Mail("A@B")
    with pytest.raises(UndecodablePayload, match="upcast from version 1"):
        mail.decode(b"[]", 1)
    with pytest.raises(UndecodablePayload, match="upcast from version 3"):
        mail.decode(b'{"recipient":7}', 3)


@pytest.mark.parametrize(("version", "to"), [(0, 2), (1, 1), (2, 1), (1, 4), (3, 3)])
def test_an_upcast_leads_upwards(app: Headgate, version: int, to: int) -> None:
    @app.task("mail", version=3)
    async def mail(payload: Mail) -> None: ...

    with pytest.raises(RegistrationError, match=f"upcast from version {version} does not lead"):
        mail.upcast(version, to=to)


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("a b", {}, "invalid kind `a b`"),
        ("a", {"aliases": ["\n"]}, "invalid kind"),
        ("a", {"aliases": ["a"]}, "kind `a` has a handler already"),
        ("a", {"version": 0}, "version must be 1-2147483647"),
        ("a", {"queue": "x" * 256}, "queue must be at most 255 bytes"),
        ("a", {"tags": ["t", "t"]}, "tags must not contain duplicates"),
        ("a", {"retention": timedelta(microseconds=999)}, "retention must be at least 1 ms"),
        ("a", {"timeout_ms": 0}, "timeout must be at least 1 ms"),
        ("a", {"timeout": timedelta(1), "timeout_ms": 1}, "timeout or timeout_ms, not both"),
        ("a", {"delay": 5}, "delay is a timedelta"),
        ("a", {"retries": 5}, "unknown option: retries"),
    ],
)
def test_options_are_judged_at_registration(
    app: Headgate, kind: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(RegistrationError, match=text):
        app.task(kind, **options)(lambda: None)
    assert not app.tasks


def test_kinds_and_aliases_belong_to_one_task(app: Headgate) -> None:
    @app.task("a", aliases=["b"])
    async def first() -> None: ...

    for kind, aliases in (("b", []), ("c", ["a"])):
        with pytest.raises(RegistrationError, match="has a handler already"):
            app.task(kind, aliases=aliases)(lambda: None)
    assert app.tasks == {"a": first, "b": first}
    assert first.job().kind == "a"


def test_shapes_that_are_no_handler_are_refused(app: Headgate) -> None:
    async def two(a: int, b: int) -> None: ...
    async def star(*rest: int) -> None: ...
    async def keyword(*, must: int) -> None: ...
    def generator() -> Any:
        yield 1

    def unsupported(payload: type[int]) -> None: ...
    def unresolved(payload: "Elsewhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    cases: list[tuple[Any, str]] = [
        (two, "takes 2 payload parameters"),
        (star, "parameter rest cannot be filled"),
        (keyword, "parameter must cannot be filled"),
        (generator, "yields"),
        (unsupported, "payload type"),
        (unresolved, "'Elsewhere' cannot be resolved"),
        (int, "is not a function"),
    ]
    for handler, text in cases:
        with pytest.raises(RegistrationError, match=text):
            app.task("a")(handler)


def test_options_of_a_job_win_over_those_of_its_task(app: Headgate) -> None:
    @app.task("a", queue="slow", priority=3, timeout=timedelta(seconds=2), tags=["x"])
    async def task() -> None: ...

    plain = task.job()
    assert (plain.queue, plain.priority, plain.timeout_ms, plain.tags) == ("slow", 3, 2000, ("x",))
    changed = task.job(
        None,
        queue="fast",
        delay=timedelta(minutes=1),
        deadline=datetime(2030, 1, 1, tzinfo=UTC),
        unique=Unique(
            "k", debounce=timedelta(seconds=1), replace=Replace.PAYLOAD | Replace.PRIORITY
        ),
        headers={"h": "v"},
    )
    assert (changed.queue, changed.priority, changed.delay_ms) == ("fast", 3, 60_000)
    assert changed.deadline_ms == 1_893_456_000_000
    assert (changed.unique_key, changed.unique_debounce_ms, changed.unique_replace) == (
        b"k",
        1000,
        5,
    )
    assert changed.headers == {"h": "v"}


def test_times_that_could_be_anything_are_refused(app: Headgate) -> None:
    @app.task("a")
    async def task() -> None: ...

    with pytest.raises(InvalidRequest, match="scheduled_at needs a time zone"):
        task.job(scheduled_at=datetime(2030, 1, 1))
    with pytest.raises(InvalidRequest, match="delay must be at least 1 ms"):
        task.job(delay=timedelta(microseconds=1))
    with pytest.raises(InvalidRequest, match="delay or scheduled_at, not both"):
        task.job(delay_ms=1, scheduled_at_ms=1)
    with pytest.raises(InvalidRequest, match="unique window must be at least 1 ms"):
        task.job(unique=Unique("k", window=timedelta(0)))
    with pytest.raises(TypeError, match="delay_ms is an integer"):
        task.job(delay_ms=1.5)  # type: ignore[arg-type]  # that is the case


async def test_without_a_store_nothing_is_enqueued(app: Headgate) -> None:
    @app.task("a")
    async def task() -> None: ...

    assert isinstance(task, Task)
    with pytest.raises(NotOpen, match="not open"):
        await task.enqueue()
    with pytest.raises(NotOpen):
        await app.enqueue(Envelope(kind="a"))
