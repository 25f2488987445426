"""Asks for consent before many runs are changed."""

from __future__ import annotations

import click

from sleipnir.scheduler.cli.terminal import is_terminal, read_line, show
from sleipnir.scheduler.runs.consent import consent


def agree(question: str, nobody: str) -> bool:
    """Ask the person at the terminal for consent; an empty line means no.

    Args:
        question: such as `go on?`.
        nobody: the remedy if no person is available.

    Raises:
        click.UsageError: no person is available.
    """
    if not is_terminal():
        raise click.UsageError(f"no person is available: {nobody}")
    show(f"{question} [y/N] ")
    return consent(read_line()) == "yes"
