"""Processes that take part in a measurement, as the bench sees them."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from bench.peers.child import Measurement, Part


class RunningPart:
    """One process, ready to begin."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.pid = process.pid

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> Measurement:
        """Waits until it has done its part; what it measured."""
        assert self._process.stdout is not None
        return msgspec.json.decode(self._process.stdout.readline(), type=Measurement)


@contextmanager
def parts(side: str, dsn: str, wanted: Sequence[Part]) -> Iterator[list[RunningPart]]:
    """Starts the processes; they have connected when this goes on, and are killed at its end."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "bench.peers.child", side, dsn),
                        msgspec.json.encode(part).decode(),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for part in wanted
        ]
        for process in processes:
            stack.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"{side} cannot take part"
        yield [RunningPart(process) for process in processes]
