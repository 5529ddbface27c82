"""What a long command shows of itself."""

import pytest

from headgate.cli.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_tells_how_far_how_fast_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress("lines", 10_000, clock=clock)
    progress.show(2_000)
    clock.now += 20
    progress.show(6_000)
    assert capsys.readouterr().err == "6,000 lines  of 10,000 (60%)  200/s  20 s left\n"


def test_it_does_not_tell_more_often_than_it_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress("lines", None, clock=clock)
    for second in range(25):
        clock.now += 1
        progress.show(100 * second)
    progress.end()
    assert capsys.readouterr().err == "900 lines  90/s\n1,900 lines  95/s\n"


def test_on_a_terminal_one_line_renews_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    clock = Clock()
    progress = Progress("lines", 0, clock=clock)
    clock.now += 1
    progress.show(7)
    clock.now += 0.1
    progress.show(8)
    progress.end()
    assert capsys.readouterr().err == "\r\x1b[K7 lines  0/s\r\x1b[K"
