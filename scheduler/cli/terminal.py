"""The terminal where somebody sits: shown on stderr, typed on stdin."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

import click

from sleipnir.scheduler.cli.terminal_output import printable

# How often a question is looked at that somebody else may answer meanwhile.
_LOOK_S = 1.0


class Withdrawn(Exception):
    """What was asked needs no answer any more."""


def is_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def show(text: str) -> None:
    """Write to the terminal, without a line end of our own."""
    click.echo(printable(text), err=True, nl=False)


def read_line(is_open: Callable[[], bool] = lambda: True) -> str:
    """What is typed up to the Enter key.

    Raises:
        EOFError: Ctrl-D instead.
        Withdrawn: `is_open` turned false.
    """
    # Not sys.stdin: what that keeps in its buffer is not seen when waiting for input.
    typed = read_input(4096, is_open)
    if not typed:
        raise EOFError
    return typed.decode(errors="replace").removesuffix("\n")


def read_input(size: int, is_open: Callable[[], bool]) -> bytes:
    """Return the next bytes that are typed, a line at most; none at the end of the input."""
    terminal = sys.stdin.fileno()
    while not select.select([terminal], [], [], _LOOK_S)[0]:
        if not is_open():
            raise Withdrawn
    return os.read(terminal, size)
