"""The demonstration as a person sees it: enqueue over REST, watch, show what came out."""

import asyncio
import base64
import http.client
import sys
import sysconfig
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.api.operations import PREFIX
from headgate.local.demo.app import KIND, QUEUE, SourceFile, app, source_files
from headgate.local.demo.facts import CREATE_TABLE, LARGEST_PACKAGES
from headgate.local.development import Development, development

_PROGRESS_SECONDS: Final = 0.5
# Parsing is work for the processor: more at a time would only fight over it.
_CONCURRENCY: Final = 4


class RestClient:
    """As much of a client of the API as the demonstration needs. Its calls block."""

    def __init__(self, base: str) -> None:
        self.base = base
        parts = urllib.parse.urlsplit(base)
        self._prefix = parts.path
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)

    def get(self, path: str) -> Any:
        return self._request("GET", path, None, {})

    def enqueue(self, source: SourceFile) -> None:
        body = {
            "id": f"read:{source.path}",
            "kind": KIND,
            "queue": QUEUE,
            "partition_key": source.package,
            "payload": base64.b64encode(msgspec.json.encode(source)).decode(),
            "max_attempts": 3,
        }
        self._request(
            "POST",
            "/jobs",
            msgspec.json.encode(body),
            {"Content-Type": "application/json", "Idempotency-Key": f"demo-{body['id']}"},
        )

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        try:
            answer = self._send(method, path, body, headers)
        except ConnectionError:
            # The server closes a connection that was idle for long. A repetition is safe: whatever
            # changes something carries a key.
            self._connection.close()
            answer = self._send(method, path, body, headers)
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {content.decode()}")
        return msgspec.json.decode(content) if content else None

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        self._connection.request(method, self._prefix + path, body, headers)
        return self._connection.getresponse()


async def tour(dsn: str, listening: Any, base: str, *, once: bool) -> None:
    """Runs the demonstration; stays up for a look around until a signal, unless `once`."""
    async with development(app, dsn, listening, concurrency=_CONCURRENCY) as running:
        await running.store.database.fetch(CREATE_TABLE)
        await _run(running, RestClient(base))
        if once:
            return
        print("Ctrl-C ends it all.", flush=True)
        await running.ended()


async def _run(running: Development, rest: RestClient) -> None:
    root = Path(sysconfig.get_path("stdlib"))
    sources = source_files(root)
    print(f"The console is at {rest.base.removesuffix(PREFIX)}/, the API at {rest.base}.")
    print(f"{len(sources):,} source files below {root}: a job for each, over REST.", flush=True)
    started = time.monotonic()
    enqueueing = asyncio.create_task(asyncio.to_thread(_enqueue, rest, sources))
    watching = RestClient(rest.base)
    while True:
        left = await asyncio.to_thread(_unfinished, watching)
        state = "enqueueing" if not enqueueing.done() else "working"
        _progress(f"{state}: {time.monotonic() - started:5.1f} s, {left}")
        if enqueueing.done() and left == "nothing left":
            break
        await asyncio.sleep(_PROGRESS_SECONDS)
    await enqueueing
    seconds = time.monotonic() - started
    print(f"\nDone in {seconds:.1f} s, {len(sources) / seconds:,.0f} files per second.\n")
    packages = await running.store.database.fetch(LARGEST_PACKAGES)
    _print_packages(packages)
    archived = await asyncio.to_thread(_archived, watching)
    _print_failures(archived)
    largest = next(row["package"] for row in packages if row["package"].isidentifier())
    _print_suggestions(rest.base, largest, "archived" if archived else "completed")


def _enqueue(rest: RestClient, sources: Sequence[SourceFile]) -> None:
    for source in sources:
        rest.enqueue(source)


def _unfinished(rest: RestClient) -> str:
    """What is not done yet, as far as one page of each state tells."""
    counts: list[str] = []
    for state in ("available", "running", "retryable", "scheduled"):
        found = len(rest.get(f"/jobs?queue={QUEUE}&state={state}&limit=200")["jobs"])
        if found:
            counts.append(f"{found if found < 200 else 'over 200'} {state}")
    return ", ".join(counts) or "nothing left"


def _archived(rest: RestClient) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = rest.get(f"/jobs?queue={QUEUE}&state=archived&limit=200")["jobs"]
    return jobs


def _progress(line: str) -> None:
    if sys.stdout.isatty():
        print(f"\r\033[K{line}", end="", flush=True)
    else:
        print(line, flush=True)


def _print_packages(rows: Sequence[Any]) -> None:
    print(
        f"{'package':<14} {'files':>6} {'lines':>9} {'functions':>9} {'classes':>8}"
        "  longest function"
    )
    for row in rows:
        longest = f"{row['longest_function']} ({row['longest_lines']:,} lines)"
        print(
            f"{row['package']:<14} {row['files']:>6,} {row['lines']:>9,} {row['functions']:>9,}"
            f" {row['classes']:>8,}  {longest if row['longest_function'] else '-'}"
        )


def _print_failures(jobs: Sequence[dict[str, Any]]) -> None:
    if not jobs:
        print("\nAll of them are Python: none failed.")
        return
    print(f"\n{len(jobs)} files are not Python; after three attempts each is archived:")
    for job in jobs[:5]:
        print(f"  {job['id']}: {job['errors'][-1]['error'].splitlines()[0]}")
    if len(jobs) > 5:
        print("  ...")


def _print_suggestions(base: str, package: str, state: str) -> None:
    print(
        f"""
Look around in the console, or with the API:
  curl '{base}/jobs?state={state}&limit=3'
  curl '{base}/jobs?q=kind:{KIND}+partition:{package}&limit=3'
  curl '{base}/readyz'
Enqueue a job of your own:
  curl -X POST {base}/jobs -H 'Content-Type: application/json' -H 'Idempotency-Key: first' \\
    -d '{{"kind": "{KIND}", "queue": "{QUEUE}", "payload": "e30="}}'
Its payload does not fit the task, so it ends undecodable: look at it by the id in the answer.
""",
        flush=True,
    )
