"""The parent process of a local server. A program: the standard library is all it may import.

It starts PostgreSQL, reaps it, and ends it once nobody holds the server any more: it waits for the
exclusive lock of a file on which every holder has a shared one, and the kernel takes a lock back
from the dead. With the keep file there, the server stays until it is stopped by name.

Its one argument is a JSON object: `command`, `environment`, `account` ([uid, gid] or null),
`running` (a locked descriptor that the server inherits, so that the lock lasts as long as its last
process), `holders` and `keep` (paths), `remove` (a directory to delete at the end, or null).
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import types
import typing

GRACE_S = 20


def ending_with_parent() -> "typing.Callable[[], object] | None":
    """On Linux, what the server's process calls to be interrupted should this one be killed.

    All of it is loaded here, because the server's account may be unable to read Python's files.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    pr_set_pdeathsig = 1
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(pr_set_pdeathsig, int(signal.SIGINT))


def stop(server: "subprocess.Popen[bytes]") -> None:
    """A fast shutdown: running transactions are rolled back."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGQUIT)


def stop_when_unheld(server: "subprocess.Popen[bytes]", holders: str, keep: str) -> None:
    """Wait for the last holder to go, then stop the server unless it is to be kept.

    The lock is not given back after that: whoever comes now waits for this process to end.
    """
    descriptor = os.open(holders, os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if os.path.exists(keep):
        os.close(descriptor)
    else:
        stop(server)


def main() -> int:
    order: dict[str, typing.Any] = json.loads(sys.argv[1])
    account: dict[str, typing.Any] = {}
    if order["account"] is not None:
        uid, gid = order["account"]
        account = {"user": uid, "group": gid, "extra_groups": []}
    server = subprocess.Popen(
        order["command"],
        stdin=subprocess.DEVNULL,
        cwd="/",
        env=order["environment"],
        pass_fds=[order["running"]],
        # Safe here: this process has a single thread until the server runs.
        preexec_fn=ending_with_parent(),
        **account,
    )

    def pass_on(_signal: int, _frame: types.FrameType | None) -> None:
        server.send_signal(signal.SIGINT)

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, pass_on)
    threading.Thread(
        target=stop_when_unheld, args=(server, order["holders"], order["keep"]), daemon=True
    ).start()
    code = server.wait()
    if order["remove"] is not None:
        shutil.rmtree(order["remove"], ignore_errors=True)
    return abs(code)


if __name__ == "__main__":
    sys.exit(main())
