"""What people type who come from other tools."""

from __future__ import annotations

import re

import click
import pytest

from sleipnir.scheduler.cli.app import OTHER_OPTIONS, cli
from sleipnir.scheduler.cli.chat.commands import COMMANDS, INSTEAD
from tests.support.pages import TEXTS


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("-a coder", "sleipnir run NAME"),
        ("--agent=coder hello", "sleipnir run NAME"),
        ("-s work", "run --session"),
        ("-f notes.md", "run -f"),
        ("-m openai:gpt-5", "SLEIPNIR_MODEL"),
        ("--agent-variable dsn x", "run --var"),
        ("--list-agents", "sleipnir agents"),
        ("--list-sessions", "sleipnir sessions"),
        ("--list-rags", "sleipnir kb info"),
        ("--info", "sleipnir doctor"),
        ("--install agents", "sleipnir agents"),
        ("--install-builtins", "sleipnir agents"),
        ("--dry-run", "sleipnir validate"),
    ],
)
def test_an_option_of_theirs_is_answered_with_ours(typed: str, ours: str) -> None:
    with pytest.raises(click.UsageError) as raised:
        cli.main(typed.split(), prog_name="sleipnir", standalone_mode=False)

    assert raised.value.exit_code == 2
    assert ours in raised.value.message


def test_options_of_ours_stay_what_they_are() -> None:
    with pytest.raises(click.NoSuchOption):
        cli.main(["--lists"], prog_name="sleipnir", standalone_mode=False)
    assert cli.main(["--version"], prog_name="sleipnir", standalone_mode=False) == 0


def test_the_manual_answers_as_the_command_does() -> None:
    lines = (line.strip("| ").split(" | ") for line in TEXTS["from-loki.md"].splitlines())
    answers = {
        text.removeprefix("coyote ").split()[0]: line[1]
        for line in lines
        if len(line) == 2
        for text in re.findall(r"`([^`]+)`", line[0])
    }

    for typed, ours in (OTHER_OPTIONS | INSTEAD).items():
        assert " ".join(ours.split()[:2]).removesuffix(" in") in answers[typed], typed
    assert COMMANDS.keys() - {".session", ".info"} <= answers.keys()
