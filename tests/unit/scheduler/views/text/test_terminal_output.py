"""What a terminal gets of texts from outside."""

from __future__ import annotations

import io

import pytest

from sleipnir.scheduler.views.text.terminal_output import TerminalOutput, printable, style, unstyled


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é ❤ 漢字\n\tindented", "plain é ❤ 漢字\n\tindented"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m\x07\r\x00", "\\x9b31m\\x07\\r\\x00"),
        ("\u202eright to left", "\\u202eright to left"),
        ("\ufdd00123\ufdd1", "\\ufdd00123\\ufdd1"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text: str, shown: str) -> None:
    written = io.BytesIO()
    terminal = TerminalOutput(written, "utf-8")

    assert terminal.write(text) == len(text)
    terminal.flush()

    assert printable(text) == shown
    assert written.getvalue().decode() == shown


def test_styles_of_ours_pass_and_those_in_a_text_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    terminal = TerminalOutput(written, "utf-8")
    monkeypatch.setattr("sys.stdout", terminal)

    styled = style("a \x1b[31mtext\x1b[0m", fg="red", bold=True)
    terminal.write(f"{styled}!")
    terminal.flush()

    assert written.getvalue().decode() == "\x1b[31m\x1b[1ma \\x1b[31mtext\\x1b[0m\x1b[0m!"
    assert unstyled(styled) == "a \x1b[31mtext\x1b[0m"


def test_what_is_no_terminal_gets_no_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())

    assert style("text", err=True, fg="red") == "text"
