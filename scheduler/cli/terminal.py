"""Interaction with the person at the terminal: output on stderr, input from stdin."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from sleipnir.scheduler.views.text.terminal_output import printable, width_of

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


@contextmanager
def keys_unbuffered() -> Iterator[None]:
    """Read keys unbuffered and without echo; Ctrl-C still works."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSANOW)  # what was typed before is not lost
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def typed_so_far() -> str:
    """Return what was typed and not read yet, complete lines or not."""
    terminal, typed = sys.stdin.fileno(), b""
    with keys_unbuffered():
        while select.select([terminal], [], [], 0)[0] and (more := os.read(terminal, 4096)):
            typed += more
    return typed.decode(errors="replace").replace("\r", "\n")


def rows_of(text: str) -> int:
    """Return the rows of the screen that a text takes."""
    width = max(1, shutil.get_terminal_size().columns)
    return sum(max(1, -(-width_of(line) // width)) for line in printable(text).split("\n"))


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
