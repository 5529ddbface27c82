"""The program that ends what a worker has left running: `python guardian.py`, by a worker.

It reads which process groups there are from its standard input. When that ends, so has the worker,
in whatever way: the groups that are left are killed. It imports next to nothing, since it may be
there for the whole life of a worker.
"""

import os
import signal
import sys


def main() -> None:
    # What is sent to the worker and all around it must not take the guardian away before it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    groups = set()
    for line in sys.stdin:
        if line.startswith("+"):
            groups.add(int(line))
        else:
            groups.discard(-int(line))
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


if __name__ == "__main__":
    main()
