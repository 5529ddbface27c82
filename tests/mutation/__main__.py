"""`python -m tests.mutation [WORD ...]`: every mutant must be caught; or those with such a word.

Each runs the test module that is to catch it, in a process of its own. Ends with status 1 when one
survives.
"""

import os
import subprocess
import sys
import time

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
    survivors = 0
    for name, mutant in MUTANTS.items():
        if words and not any(word in name or word in mutant.caught_by for word in words):
            continue
        started = time.monotonic()
        run = subprocess.run(
            [*COMMAND, mutant.caught_by],
            env={**os.environ, "HEADGATE_RULES_EXAMPLES": "300", ENVIRONMENT: name},
            capture_output=True,
            text=True,
        )
        caught = run.returncode == 1
        survivors += not caught
        why = next((line for line in run.stdout.splitlines() if line.startswith("E  ")), "")
        seconds = time.monotonic() - started
        verdict = "caught" if caught else f"SURVIVED ({run.returncode})"
        print(
            f"{name:42} {mutant.caught_by:40} {verdict:8} {seconds:4.0f} s {why[:90]}", flush=True
        )
    return min(survivors, 1)


if __name__ == "__main__":
    sys.exit(main())
