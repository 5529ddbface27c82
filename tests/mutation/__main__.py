"""`python -m tests.mutation [WORD ...]`: every mutant must be caught; or those with such a word.

Each runs the test module that is to catch it, in a process of its own; all of them use one server.
Ends with status 1 when one survives.
"""

import os
import subprocess
import sys
import time

from headgate.testing.run import ENVIRONMENT_DSN, DatabaseRun
from tests.mutation.mutants import ENVIRONMENT, MUTANTS

COMMAND = (
    sys.executable,
    "-m",
    "tests.mutation.run",
    "pytest",
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
)


def main() -> int:
    words = sys.argv[1:]
    with DatabaseRun.opened() as database, database.server() as dsn:
        return min(sum(_survives(name, dsn) for name in MUTANTS if _is_wanted(name, words)), 1)


def _is_wanted(name: str, words: list[str]) -> bool:
    return not words or any(word in name or word in MUTANTS[name].caught_by for word in words)


def _survives(name: str, dsn: str) -> bool:
    mutant = MUTANTS[name]
    started = time.monotonic()
    run = subprocess.run(
        [*COMMAND, mutant.caught_by],
        env={
            **os.environ,
            "HEADGATE_RULES_EXAMPLES": "300",
            ENVIRONMENT_DSN: dsn,
            ENVIRONMENT: name,
        },
        capture_output=True,
        text=True,
    )
    # Not by an error before the test.
    caught = run.returncode == 1 and "\nFAILED " in run.stdout
    why = next((line for line in run.stdout.splitlines() if line.startswith("E  ")), "")
    verdict = "caught" if caught else f"SURVIVED ({run.returncode})"
    seconds = time.monotonic() - started
    print(f"{name:42} {mutant.caught_by:40} {verdict:8} {seconds:4.0f} s {why[:90]}", flush=True)
    return not caught


if __name__ == "__main__":
    sys.exit(main())
