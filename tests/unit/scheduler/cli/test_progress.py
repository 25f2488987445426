"""How a batch shows that it gets on."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.batch.limit_wait import LimitWait
from sleipnir.scheduler.batch.options import Progress
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.progress import Display, StepDisplay, final_lines

PROGRESS = Progress(10_000, in_flight=64, good=1_200, failed=34)


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


def test_without_a_worker_it_promises_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    display = Display(Options(), "reviews")
    monkeypatch.setattr(display, "_began_at", display._began_at - 60)
    going = Progress(10, in_flight=2, good=5)
    stuck = Progress(10, in_flight=2, good=5, lacking="no worker is running")

    assert " left" in display.line(going)
    assert "2 in progress, no worker is running" in display.line(stuck)
    assert " left" not in display.line(stuck)


def test_the_end_says_what_to_do_about_lines_that_are_not_good() -> None:
    progress = Progress(5_000, earlier=2_606, good=2_997, incomplete=3, failed=2_000)
    progress.failed_again = 1_200

    lines = list(final_lines("b", progress))

    assert lines[0] == (
        "batch b: 5,000 of 5,000 lines finished, 2,000 failed, 3 with failed nodes, "
        "2,606 by earlier commands"
    )
    told = "\n".join(lines)
    assert "--retry-failed continues the runs of failed lines where they stopped" in told
    assert "--retry-incomplete continues their runs from the first failed node" in told
    assert "1,200 lines failed again for the same reason" in told
    assert "--from-start" in told


def test_a_step_says_on_a_terminal_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    lines: list[str] = []

    with StepDisplay(Options(), "look_up") as display:
        display.update("batches embedded", 1, 3)
        lines += [task.fields["line"] for task in display._bar.tasks]

    assert lines == ["look_up: 1 of 3 batches embedded"]
