"""Interaction with the person at the terminal: output on stderr, input from stdin."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

import click

from sleipnir.scheduler.cli.terminal_output import printable

# How often to check a question that may be answered elsewhere meanwhile.
_LOOK_S = 1.0


class Withdrawn(Exception):
    """The question no longer needs an answer."""


def is_terminal() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def show(text: str) -> None:
    """Print to the terminal without adding a line end."""
    click.echo(printable(text), err=True, nl=False)


def read_line(is_open: Callable[[], bool] = lambda: True) -> str:
    """Read a line from the terminal.

    Raises:
        EOFError: Ctrl-D was pressed.
        Withdrawn: `is_open` returned False.
    """
    # Not sys.stdin: select does not see what is in its buffer.
    typed = read_input(4096, is_open)
    if not typed:
        raise EOFError
    return typed.decode(errors="replace").removesuffix("\n")


def read_input(size: int, is_open: Callable[[], bool]) -> bytes:
    """Return the next typed bytes, a line at most; b"" at the end of the input."""
    terminal = sys.stdin.fileno()
    while not select.select([terminal], [], [], _LOOK_S)[0]:
        if not is_open():
            raise Withdrawn
    return os.read(terminal, size)
