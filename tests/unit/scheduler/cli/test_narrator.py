"""How a run's narration looks on a terminal."""

from __future__ import annotations

import io

import pytest

from sleipnir.scheduler.cli.chat.narrator import ChatNarrator
from sleipnir.scheduler.cli.narration.narrator import Narrator
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    Event,
    ItemCommitted,
    QuestionAsked,
    RunEnded,
    TextStreamed,
)
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.views.text.terminal_output import TerminalOutput

ITEMS = [ItemCommitted("all", n, None, done=n + 1, total=3) for n in range(3)]
END = RunEnded(Status.SUCCEEDED, "", 1_000)


class Screen(TerminalOutput):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True


def told(monkeypatch: pytest.MonkeyPatch, *events: Event, agent: str | None = None) -> str:
    """What a terminal gets at standard error."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    written = io.BytesIO()
    screen = Screen(written, "utf-8", line_buffering=True)
    with monkeypatch.context() as patched:
        patched.setattr("sys.stderr", screen)
        narrator = Narrator(Options())
        for event in events:
            narrator.tell(event, None if agent is None else ChildStarted("n", agent, "ab12"))
        narrator.end()
    screen.flush()
    return written.getvalue().decode()


def test_a_chat_shows_a_question_once(capsys: pytest.CaptureFixture[str]) -> None:
    for verbosity, shown in ((0, 0), (1, 2)):
        narrator = ChatNarrator(Options(verbosity=verbosity))
        for child in (None, ChildStarted("n", "worker", "ab12")):
            narrator.tell(QuestionAsked("user__ask", "Which?", (), None), child)
        narrator.end()

        assert capsys.readouterr().err.count("Which?") == shown


def test_the_items_of_a_map_are_counted_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, *ITEMS, END)

    assert text.count("\r\x1b[K") == 3
    assert "all [3/3] done" in text
    assert text.count("\n") == 2


def test_a_child_that_builds_a_knowledge_base_is_counted_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = told(monkeypatch, *ITEMS, agent="kb build pets look_up")

    assert text.count("\r\x1b[K") == 3
    assert "kb build pets look_up: 3 of 3 batches" in text
    assert text.count("\n") == 1
    assert told(monkeypatch, *ITEMS, agent="worker") == ""  # of other children nothing


def test_the_failure_of_a_child_is_not_taken_for_that_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = RunEnded(Status.FAILED, '{"code": "R601", "message": "no", "node": null}', 1_000)

    text = told(monkeypatch, failed, agent="worker")

    assert "▸   agent worker: run ab12 failed in 1.00s: R601: no" in text
    assert told(monkeypatch, END, agent="worker") == ""


def test_what_fails_has_a_line_of_its_own_between(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = ItemCommitted("all", 1, "R003: no", done=2, total=3)

    text = told(monkeypatch, ITEMS[0], failed, ITEMS[2])

    assert text.count("\n") == 3
    assert "all item [1] failed: R003: no" in text


def test_a_reply_that_streams_begins_on_a_free_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, ITEMS[0], TextStreamed("ask", None, "hello"), END)

    assert "[1/3] done\x1b[0m\n" in text
    assert text.count("\n") == 3


def test_only_what_nodes_do_is_dim(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, END)

    assert text.startswith("\x1b[32m\x1b[1m▸ graph done")


def test_elsewhere_each_item_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = Narrator(Options())

    for event in ITEMS:
        narrator.tell(event)

    assert capsys.readouterr().err.splitlines() == [f"▸   all [{n}/3] done" for n in (1, 2, 3)]
