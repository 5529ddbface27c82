"""`headgate api` with access, several processes and a log; `headgate token`."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import asyncpg
import pytest

from tests.contract.serving import (
    Address,
    Start,
    address_of,
    ask,
    begin,
    complaint,
    ended,
    environment_for,
)
from tests.forks import LIMIT_S, Fork, headgate
from tests.worker.waiting import eventually

JOB = b'{"kind":"t.k","payload":"e30="}'


def token_command(dsn: str | None, *arguments: str) -> list[str]:
    """The lines that `headgate token` prints."""
    command = headgate("token", *arguments)
    code, output, errors = Fork(
        command, directory=Path.cwd(), environment=environment_for(dsn)
    ).wait()
    assert code == 0, errors
    return output.splitlines()


def status_with(address: Address, path: str, token: str) -> int:
    return ask(address, "GET", path, headers={"authorization": f"Bearer {token}"})[0]


def test_tokens_of_a_file_of_the_environment_and_of_the_database(
    start: Start, headgate_database: str, tmp_path: Path
) -> None:
    viewer, viewer_line = token_command(None, "create", "ada", "viewer")
    admin, admin_line = token_command(None, "create", "root", "admin")
    (stored,) = token_command(headgate_database, "create", "ops", "operator", "--store")
    assert len({viewer, admin, stored}) == 3
    (tmp_path / "tokens").write_text(f"# ours\n{viewer_line}\n")
    process = start(
        headgate_database,
        "--host",
        "0.0.0.0",
        "--tokens",
        "tokens",
        HEADGATE_TOKENS=admin_line,
    )
    _, port = address_of(process)
    address = ("127.0.0.1", port)
    for token, statuses in (
        ("", (401, 401)),
        (viewer, (200, 403)),
        (stored, (200, 403)),
        (admin, (200, 200)),
    ):
        found = [status_with(address, f"/api/v1/{path}", token) for path in ("queues", "audit")]
        assert tuple(found) == statuses
    assert ask(address, "GET", "/api/v1/healthz") == (200, b"ok")
    (line,) = token_command(headgate_database, "list")
    assert line.endswith(" ops operator valid")
    assert stored not in line
    assert token_command(headgate_database, "revoke", "ops") == ["revoked 1"]
    deadline = time.monotonic() + LIMIT_S
    while status_with(address, "/api/v1/queues", stored) != 401:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (line,) = token_command(headgate_database, "list")
    assert line.endswith(" ops operator revoked")


def test_a_file_without_a_token_lets_nobody_in(
    start: Start, headgate_database: str, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("# none yet\n")
    address = address_of(start(headgate_database, "--tokens", "tokens"))
    assert ask(address, "GET", "/api/v1/queues")[0] == 401


def test_tokens_that_are_none_are_one_line(start: Start, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("ada viewer hunter2\n")
    nowhere = "postgresql://x@127.0.0.1:1/x"
    line = complaint(start(nowhere, "--tokens", "tokens"))
    assert "token 1 is not" in line
    assert "hunter2" not in line
    assert "cannot read tokens from missing" in complaint(start(nowhere, "--tokens", "missing"))


def test_require_token_is_enough_for_others_to_reach_it(
    start: Start, headgate_database: str
) -> None:
    process = start(headgate_database, "--host", "0.0.0.0", "--require-token")
    _, port = address_of(process)
    assert ask(("127.0.0.1", port), "GET", "/api/v1/queues")[0] == 401


@pytest.mark.parametrize(
    ("arguments", "foreign"),
    [((), 403), (("--workers", "2"), 403), (("--allow-unauthenticated",), 200),
     (("--workers", "2", "--allow-unauthenticated"), 200), (("--require-token",), 200)],
    ids=["one", "several", "unguarded", "several unguarded", "tokens"],
)  # fmt: skip
def test_who_asks_nobody_answers_to_local_names_only(
    start: Start, headgate_database: str, arguments: tuple[str, ...], foreign: int
) -> None:
    address = address_of(start(headgate_database, *arguments))
    for host, status in (
        ("localhost", 200),
        ("LOCALHOST.:8080", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("console.localhost", 200),
        ("buildbox:8080", 200),
        ("evil.example", foreign),
        ("evil.example:8080", foreign),
        ("localhost.evil.example", foreign),
        ("127.0.0.1.evil.example", foreign),
    ):
        found, body = ask(address, "GET", "/api/v1/healthz", headers={"host": host})
        assert found == status, host
        if status == 403:
            assert json.loads(body)["error"].startswith("this server answers to addresses")


def test_several_processes_serve_one_port_and_are_replaced(
    start: Start, headgate_database: str
) -> None:
    process = start(headgate_database, "--workers", "2", "--access-log")
    address = address_of(process)
    assert ask(address, "GET", "/api/v1/readyz") == (200, b"ready")
    first = children_of(process.pid)
    while len(first) < 2:
        first = children_of(process.pid)
    os.kill(first[0], signal.SIGKILL)
    deadline = time.monotonic() + LIMIT_S
    while len(children_of(process.pid)) < 2 or first[0] in children_of(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ask(address, "GET", "/api/v1/healthz") == (200, b"ok")
    process.send_signal(signal.SIGTERM)
    code, _, errors = process.wait()
    assert code == 0
    assert "another one takes over" in errors
    assert "Traceback" not in errors
    assert not any(is_alive(pid) for pid in first)


def test_processes_do_not_outlive_the_one_that_started_them(
    start: Start, headgate_database: str
) -> None:
    process = start(headgate_database, "--workers", "2")
    address = address_of(process)
    assert ask(address, "GET", "/api/v1/readyz") == (200, b"ready")
    children = children_of(process.pid)
    process.kill()
    deadline = time.monotonic() + LIMIT_S
    while any(is_alive(pid) for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not collected does not."""
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(found.stdout.strip()) and not found.stdout.startswith("Z")


def test_streams_do_not_hold_the_end_up(start: Start, headgate_database: str) -> None:
    process = start(headgate_database)
    address = address_of(process)
    streams = [begin(address, "/api/v1/events") for _ in range(3)]
    assert [answer.status for _, answer in streams] == [200] * 3
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    for connection, answer in streams:
        assert answer.read() == b""
        connection.close()
    assert ended(process) == (0, [])
    assert time.monotonic() - asked < 5


def test_a_request_that_is_being_served_is_finished(start: Start, headgate_database: str) -> None:
    process = start(headgate_database)
    address = address_of(process)
    with socket.create_connection(address, timeout=LIMIT_S) as connection:
        connection.sendall(
            b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Idempotency-Key: k\r\nContent-Length: %d\r\n\r\n" % len(JOB)
        )
        connection.sendall(JOB[:10])
        # Something of the answer to another request shows that the first one is begun.
        assert ask(address, "GET", "/api/v1/readyz") == (200, b"ready")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        connection.sendall(JOB[10:])
        assert connection.recv(64).startswith(b"HTTP/1.1 201")
    assert process.wait().returncode == 0


def test_the_log_has_a_line_for_each_request(
    start: Start, headgate_database: str, tmp_path: Path
) -> None:
    token, line = token_command(None, "create", "ada", "viewer")
    (tmp_path / "tokens").write_text(line)
    process = start(headgate_database, "--access-log", "--tokens", "tokens")
    address = address_of(process)
    status_with(address, "/api/v1/jobs/a%2Fb?include_payload=secret", token)
    ask(address, "GET", "/nosuch")
    process.send_signal(signal.SIGTERM)
    _, lines = ended(process)
    found, unknown = [json.loads(each[each.index("{") :]) for each in lines]
    assert found.pop("ms") >= 0
    assert found.pop("bytes") > 0
    assert len(found.pop("request_id")) == 16
    assert found == {
        "method": "GET",
        "path": "/api/v1/jobs/a/b",
        "route": "/api/v1/jobs/{id}",
        "status": 400,
        "identity": "ada",
        "client": "127.0.0.1",
    }
    assert (unknown["route"], unknown["status"], unknown["identity"]) == (None, 404, "")
    assert not any(token in each or "secret" in each for each in lines)


async def test_it_folds_the_ledger_when_there_is_no_worker(
    start: Start, headgate_database: str
) -> None:
    observer = await asyncpg.connect(headgate_database)
    address = address_of(start(headgate_database))
    connection = http.client.HTTPConnection(*address, timeout=LIMIT_S)
    connection.request(
        "POST",
        "/api/v1/jobs",
        JOB,
        {"Content-Type": "application/json", "Idempotency-Key": "k"},
    )
    assert connection.getresponse().status == 201
    connection.close()

    async def folded() -> bool:
        left = await observer.fetchval("SELECT count(*) FROM headgate_ledger")
        counted = await observer.fetchval("SELECT sum(n) FROM headgate_partition_count")
        return bool(left == 0 and counted == 1)

    await eventually(folded)
    duties = await observer.fetch("SELECT name, holder FROM headgate_duty")
    assert [row["name"] for row in duties] == ["ledger"]
    assert duties[0]["holder"].startswith("api ")
    await observer.close()


async def test_read_only_writes_nothing_at_all(start: Start, headgate_database: str) -> None:
    observer = await asyncpg.connect(headgate_database)
    address = address_of(start(headgate_database, "--read-only"))
    for _ in range(15):
        assert ask(address, "GET", "/api/v1/readyz") == (200, b"ready")
        await asyncio.sleep(0.1)
    assert await observer.fetchval("SELECT count(*) FROM headgate_duty") == 0
    await observer.close()


@pytest.mark.parametrize("size", [70_000, 1_000_000])
def test_headers_without_end_are_refused(start: Start, headgate_database: str, size: int) -> None:
    address = address_of(start(headgate_database))
    with socket.create_connection(address, timeout=LIMIT_S) as connection:
        connection.sendall(b"GET /api/v1/healthz HTTP/1.1\r\nHost: x\r\n")
        try:
            for number in range(size // 1000):
                connection.sendall(b"x-%d: " % number + b"y" * 1000 + b"\r\n")
            connection.sendall(b"\r\n")
            assert connection.recv(64).startswith(b"HTTP/1.1 400")
        except ConnectionError:
            pass  # It was closed while we were still sending.
    assert ask(address, "GET", "/api/v1/healthz") == (200, b"ok")
