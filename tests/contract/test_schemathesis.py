"""The document is true: requests made from it get the answers it promises, from a real server.

The same requests in every run. `HEADGATE_CONTRACT_EXAMPLES` raises their number.
"""

import asyncio
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, Final

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyStrategyDefinition

from headgate.api.application import create_app
from headgate.api.health import VERSION
from headgate.api.openapi import build_document
from headgate.api.operations import MUTATING
from headgate.api.server import listen, url_of
from headgate.api.table import OPERATIONS
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

# A stream has no end that a client of whole answers could wait for.
ENDLESS: Final = "follow_events"
EXAMPLES: Final = int(os.environ.get("HEADGATE_CONTRACT_EXAMPLES", "3"))

CONFIG: Final = schemathesis.Config.from_dict(
    {
        "checks": {
            # What no schema can say (fields that exclude each other, bytes instead of characters)
            # is refused 400 though it fits the schema.
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "400", "403", "404", "409", "423", "429"]
            },
            "negative_data_rejection": {
                "expected-statuses": ["400", "404", "405", "413", "415", "422"]
            },
        },
        "operations": [
            # What was deleted is still answered: an operation that was cancelled stays to be looked
            # at, and nothing is known of a queue or a schedule that nobody ever heard of either.
            {"include-operation-id": name, "checks": {"use_after_free": {"enabled": False}}}
            for name in (
                "read_operation",
                "read_queue_history",
                "read_blocked_jobs",
                "list_schedule_events",
            )
        ]
        + [
            # A new job has none of them yet.
            {
                "include-operation-id": name,
                "checks": {"ensure_resource_availability": {"enabled": False}},
            }
            for name in ("read_result", "read_output", "read_progress")
        ],
    }
)
SCHEMA: Final = schemathesis.openapi.from_dict(
    build_document(OPERATIONS, VERSION), config=CONFIG
).exclude(operation_id=ENDLESS)

SETTINGS: Final = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

JOURNEYS: Final = settings(
    SETTINGS,
    max_examples=4,
    stateful_step_count=10,
    derandomize=False,  # the seed of each search is given
    phases=[Phase.generate],
)

_keys: Final = count()
_requests: Final = count()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """A key of its own for each request, also for methods that a path does not have.

    One that was left out or spoilt to see what happens stays so.
    """
    next(_requests)
    undeclared = case.method.upper() != case.operation.method.upper()
    if undeclared and case.method.upper() in MUTATING:
        case.headers["Idempotency-Key"] = f"k{next(_keys)}"
    key = (case.headers or {}).get("Idempotency-Key", "")
    if re.fullmatch("[!-~]{1,200}", key):
        case.headers["Idempotency-Key"] = f"{key}-{next(_keys)}"
    if case.meta is None or case.meta.generation.mode.is_positive:
        case.body = without_fractions(case.body)


def without_fractions(value: Any) -> Any:
    """1 for 1.0: JSON Schema calls both an integer, the contract only the first."""
    if isinstance(value, dict):
        return {name: without_fractions(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_fractions(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.fixture(scope="module")
def address(headgate_clones: Any, headgate_template: str) -> Iterator[str]:
    """A server in a thread, since the client of the tests blocks."""
    name = f"headgate_contract_{secrets.token_hex(4)}"
    dsn = headgate_clones.clone(headgate_template, name)
    listening = listen("127.0.0.1", 0)
    server: list[uvicorn.Server] = []
    ready = threading.Event()

    async def serve() -> None:
        async with Store(StoreSettings(dsn=dsn)) as store:
            config = uvicorn.Config(create_app(store), log_config=None, access_log=False)
            server.append(uvicorn.Server(config))
            ready.set()
            await server[0].serve(sockets=[listening])

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(10)
    yield url_of(listening).removesuffix("/api/v1")
    server[0].should_exit = True
    thread.join(10)
    headgate_clones.drop(name)


@pytest.fixture(autouse=True)
def counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Notes how many requests a test made, for the summary of the run."""
    begun = next(_requests)
    yield
    record_property("requests", next(_requests) - begun - 1)


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> Any:
    """What the tests of a family take their operations from, where and when they run."""
    # pytest has another name for this by now, by which schemathesis does not ask yet.
    request.node._nodeid = request.node.nodeid
    return SCHEMA


LAZY: Final = schemathesis.pytest.from_fixture("schema")
JOBS: Final = "^/api/v1/jobs"
POLICIES: Final = "^/api/v1/(queues|periodic|rate-classes|concurrency-limits)"


@pytest.mark.timeout(600)
@LAZY.include(path_regex=JOBS).parametrize()
@SETTINGS
def test_the_document_is_true_of_jobs(case: Any, address: str) -> None:
    case.call_and_validate(base_url=address)


@pytest.mark.timeout(600)
@LAZY.include(path_regex=POLICIES).parametrize()
@SETTINGS
def test_the_document_is_true_of_queues_and_policies(case: Any, address: str) -> None:
    case.call_and_validate(base_url=address)


@pytest.mark.timeout(600)
@(
    LAZY.exclude(path_regex=JOBS)
    .exclude(path_regex=POLICIES)
    .exclude(operation_id=ENDLESS)
    .parametrize()
)
@SETTINGS
def test_the_document_is_true_of_everything_else(case: Any, address: str) -> None:
    case.call_and_validate(base_url=address)


def test_every_link_leads_where_it_says(address: str) -> None:
    """Operations one after the other, each fed with what the ones before were answered."""
    failures: list[Exception] = []

    class Journey(SCHEMA.as_state_machine()):  # type: ignore[misc] # made when the test runs
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"base_url": address}

        def validate_response(self, *arguments: Any, **options: Any) -> None:
            try:
                super().validate_response(*arguments, **options)
            except Exception as failure:
                failures.append(failure)
                raise

    for number in range(EXAMPLES):
        # Where a journey may go depends on what others have left in the database. Hypothesis takes
        # that for a fault of the test when it comes by a place again, and the next search begins.
        with suppress(FlakyStrategyDefinition):
            seed(number)(Journey).run(settings=JOURNEYS)
        if failures:
            raise failures[0]
