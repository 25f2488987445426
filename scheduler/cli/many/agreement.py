"""What a person at the terminal is asked before many runs are touched."""

from __future__ import annotations

import click

from sleipnir.scheduler.cli.terminal import is_terminal, read_line, show
from sleipnir.scheduler.runs.consent import consent


def agree(question: str, nobody: str) -> bool:
    """Return whether the person at the terminal wants that; an empty line means no.

    Args:
        question: such as `go on?`.
        nobody: what to do where no person is available.

    Raises:
        click.UsageError: no person is available.
    """
    if not is_terminal():
        raise click.UsageError(f"no person is available: {nobody}")
    show(f"{question} [y/N] ")
    text = read_line().strip()
    return bool(text) and consent(text) == "yes"
