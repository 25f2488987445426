"""How a batch shows that it gets on."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.batch.limit_wait import LimitWait
from sleipnir.scheduler.batch.options import Progress
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.progress import Display, StepDisplay

PROGRESS = Progress(10_000, in_flight=64, succeeded=1_200, failed=34)


@pytest.mark.parametrize("columns", [12, 40, 200])
def test_however_narrow_the_terminal_is_it_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    line = Display(Options(), "reviews").line(PROGRESS)

    assert line.startswith("1234/10000")
    assert len(line) < columns


def test_it_says_which_limit_calls_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    waiting = Progress(10, in_flight=2, limit_wait=LimitWait("openai", 1_767_225_600_000))

    line = Display(Options(), "reviews").line(waiting)

    assert "2 in progress, waits for limit openai until " in line
    assert line.endswith(":00  reviews")


def test_a_step_says_on_a_terminal_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    lines: list[str] = []

    with StepDisplay(Options(), "look_up") as display:
        display.update("batches embedded", 1, 3)
        lines += [task.fields["line"] for task in display._bar.tasks]

    assert lines == ["look_up: 1 of 3 batches embedded"]
