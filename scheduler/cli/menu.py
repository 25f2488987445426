"""A menu in the terminal, moved through with the arrow keys."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from sleipnir.scheduler.cli.formatting import first_line
from sleipnir.scheduler.cli.terminal import read_input
from sleipnir.scheduler.cli.terminal_output import control, style

OTHER = "another answer …"

_UP = ("\x1b[A", "\x1bOA")
_DOWN = ("\x1b[B", "\x1bOB")
_ENTER = ("\r", "\n")
_END_OF_FILE = "\x04"
# What follows an escape comes with it, unless the Escape key itself was pressed.
_SEQUENCE_S = 0.05


def choose(options: Sequence[str], is_open: Callable[[], bool]) -> str | None:
    """The option that was picked; None for an answer of one's own.

    Raises:
        EOFError: they do not want to answer (Ctrl-D).
        Withdrawn: `is_open` turned false.
    """
    entries = [*options, OTHER]
    chosen = 0
    with _keys_unbuffered():
        _draw(entries, chosen)
        while (key := _read_key(is_open)) not in _ENTER:
            if key == _END_OF_FILE:
                raise EOFError
            chosen = moved(chosen, key, len(entries))
            control(f"\x1b[{len(entries)}A")
            _draw(entries, chosen)
    return None if chosen == len(options) else options[chosen]


def moved(chosen: int, key: str, count: int) -> int:
    """The place after a key: arrows go round, a digit goes to that entry."""
    if key in _UP:
        return (chosen - 1) % count
    if key in _DOWN:
        return (chosen + 1) % count
    if key.isdecimal() and 1 <= int(key) <= count:
        return int(key) - 1
    return chosen


def _draw(entries: Sequence[str], chosen: int) -> None:
    width = shutil.get_terminal_size().columns
    for place, entry in enumerate(entries):
        mark = "➤" if place == chosen else " "
        line = f"{mark} {place + 1}) {first_line(entry, width)}"[: width - 1]
        control("\r\x1b[K")
        click.echo(style(line, err=True, bold=place == chosen), err=True)


@contextmanager
def _keys_unbuffered() -> Iterator[None]:
    """Have each key at once and unseen; Ctrl-C stays what it is."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _read_key(is_open: Callable[[], bool]) -> str:
    """One key; an arrow comes as its escape sequence, the end of the input as Ctrl-D."""
    terminal = sys.stdin.fileno()
    key = read_input(1, is_open)
    if key == b"\x1b" and select.select([terminal], [], [], _SEQUENCE_S)[0]:
        key += os.read(terminal, 2)
    return key.decode(errors="replace") or _END_OF_FILE
