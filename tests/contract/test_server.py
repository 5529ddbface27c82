"""`headgate api` as a process: what it refuses to start with, and how it starts and ends."""

import signal
import socket
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.contract.serving import Start, address_of, ask, complaint, ended


def test_it_serves_and_ends_well(start: Start, headgate_database: str) -> None:
    process = start(headgate_database)
    address = address_of(process)
    assert address[0] == "127.0.0.1"
    assert ask(address, "GET", "/api/v1/readyz") == (200, b"ready")
    assert ask(address, "HEAD", "/api/v1/meta") == (200, b"")
    assert ask(address, "GET", "/api/v1/jobs/a%2Fb")[0] == 404
    assert ask(address, "GET", "/api/v1/jobs/%FF") == (400, b'{"error":"invalid path parameter"}')
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, [])


def test_bytes_in_a_path_that_no_client_should_send_do_no_harm(
    start: Start, headgate_database: str
) -> None:
    address = address_of(start(headgate_database))
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(
            b"GET /api/v1/jobs/\xff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(64).startswith(b"HTTP/1.1 4")
    assert ask(address, "GET", "/api/v1/healthz") == (200, b"ok")


def test_read_only_and_a_configuration_of_ones_own(
    start: Start, headgate_database: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from headgate.api.config import ApiConfig\n"
        "def config(): return ApiConfig(payloads=False)\n"
        "wrong = 7\n"
    )
    address = address_of(start(headgate_database, "mine:config", "--read-only"))
    assert ask(address, "POST", "/api/v1/jobs") == (403, b'{"error":"read-only mode"}')
    assert ask(address, "GET", "/api/v1/jobs/x?include_payload=true")[0] == 403
    for target, text in (
        ("mine", "is not of the form"),
        ("mine:wrong", "is no ApiConfig"),
        ("mine:nosuch", "has no nosuch"),
        ("nosuch:config", "no module nosuch"),
    ):
        assert text in complaint(start(headgate_database, target))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_others_are_not_let_in_by_accident(start: Start, host: str) -> None:
    line = complaint(start("postgresql://x@127.0.0.1:1/x", "--host", host))
    assert "which others can reach, without authentication" in line


def test_others_are_let_in_on_demand(start: Start, headgate_database: str) -> None:
    process = start(headgate_database, "--host", "0.0.0.0", "--allow-unauthenticated")
    _, port = address_of(process)
    assert ask(("127.0.0.1", port), "GET", "/api/v1/healthz") == (200, b"ok")


def test_a_taken_port_is_one_line(start: Start, headgate_database: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = complaint(start(headgate_database, port=port))
    assert line == f"headgate: cannot listen on 127.0.0.1:{port}: address already in use"


def test_what_waiting_does_not_cure_is_one_line(
    start: Start, headgate_server: str, empty_database: str
) -> None:
    server = make_url(headgate_server)
    stranger = server.set(username="nosuch", password="secret")
    for dsn, text in (
        (None, "HEADGATE_DATABASE_URL is not set"),
        ("mysql://x/y", "bad conninfo"),
        ("no url", "bad conninfo"),
        (stranger, "access refused"),
        (server.set(database="nosuch"), "access refused"),
        (server.update_query_dict({"sslmode": "nosuch"}), "bad conninfo"),
        (empty_database, "headgate migrate up"),
    ):
        value = dsn if dsn is None or isinstance(dsn, str) else dsn.render_as_string(False)
        line = complaint(start(value))
        assert text in line
        assert "secret" not in line


def test_it_starts_while_the_database_is_away(start: Start) -> None:
    process = start("postgresql://nobody@127.0.0.1:1/nothing")
    address = address_of(process)
    assert ask(address, "GET", "/api/v1/healthz") == (200, b"ok")
    assert ask(address, "GET", "/api/v1/readyz")[0] == 503
    process.send_signal(signal.SIGINT)
    code, _, errors = process.wait()
    assert code == 0
    assert "Traceback" not in errors
