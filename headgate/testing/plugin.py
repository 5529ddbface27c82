"""The pytest plugin: a real PostgreSQL, and a fresh migrated database for each test.

`HEADGATE_TEST_DATABASE_URL` names a server to use, by a role that may create databases. Without it
an embedded server is started by the first test that needs one; all workers of pytest-xdist share
it, and it ends with the run.
"""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Whatever is not pytest is imported by the first test that asks for a database: this module is
# loaded by every run of pytest in an environment that has Headgate.
if TYPE_CHECKING:
    from headgate.testing.clones import Clones
    from headgate.testing.run import DatabaseRun

RUN = pytest.StashKey["DatabaseRun"]()
WORKER_INPUT = "headgate_run"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist which run it is part of."""
    node.workerinput[WORKER_INPUT] = str(_database_run(node.config).directory)


@pytest.fixture(scope="session")
def headgate_server(pytestconfig: pytest.Config) -> Iterator[str]:
    """The DSN of the PostgreSQL server of this run."""
    with _database_run(pytestconfig).server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def headgate_template(pytestconfig: pytest.Config, headgate_server: str) -> str:
    """The name of a database with Headgate's schema and nothing in it, to be copied."""
    return _database_run(pytestconfig).template(headgate_server)


@pytest.fixture(scope="session")
def headgate_clones(pytestconfig: pytest.Config, headgate_server: str) -> Iterator["Clones"]:
    """What makes and drops databases, for tests that want more than one."""
    clones = _database_run(pytestconfig).clones(headgate_server)
    yield clones
    clones.close()


@pytest.fixture
def headgate_database(headgate_clones: "Clones", headgate_template: str) -> Iterator[str]:
    """The DSN of a fresh database with Headgate's schema, dropped after the test."""
    name = f"headgate_test_{secrets.token_hex(4)}"
    yield headgate_clones.clone(headgate_template, name)
    headgate_clones.drop(name)


def _database_run(config: pytest.Config) -> "DatabaseRun":
    """The run that this process is part of; begun here in the run's main process."""
    from headgate.testing.run import DatabaseRun

    run = config.stash.get(RUN, None)
    if run is None:
        given = getattr(config, "workerinput", {}).get(WORKER_INPUT)
        if given is not None:
            run = DatabaseRun(Path(given))
        else:
            stack = ExitStack()
            run = stack.enter_context(DatabaseRun.opened())
            config.add_cleanup(stack.close)
        config.stash[RUN] = run
    return run
