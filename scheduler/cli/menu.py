"""A terminal menu, navigated with the arrow keys."""

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
from sleipnir.scheduler.cli.terminal_output import control, shortened, style

OTHER = "another answer …"

_LEAST_ROWS = 3
_UP = ("\x1b[A", "\x1bOA")
_DOWN = ("\x1b[B", "\x1bOB")
_ENTER = ("\r", "\n")
_TICK = " "
_END_OF_FILE = "\x04"
# An escape sequence arrives at once, unlike keys typed after the Escape key.
_SEQUENCE_S = 0.05


def choose(options: Sequence[str], is_open: Callable[[], bool]) -> str | None:
    """Let the person pick an option; return None for an answer of their own.

    Raises:
        EOFError: the person pressed Ctrl-D.
        Withdrawn: `is_open` turned false.
    """
    chosen = _enter_at([*options, OTHER], is_open)
    return None if chosen == len(options) else options[chosen]


def choose_several(options: Sequence[str], is_open: Callable[[], bool]) -> list[str] | None:
    """Let the person tick options with the space bar; return None for an answer of their own.

    Raises:
        EOFError, Withdrawn: as `choose`.
    """
    ticked: set[int] = set()
    chosen = _enter_at([*options, OTHER], is_open, ticked)
    if chosen == len(options):
        return None
    return [option for place, option in enumerate(options) if place in ticked]


def _enter_at(
    entries: Sequence[str], is_open: Callable[[], bool], ticked: set[int] | None = None
) -> int:
    """Return the index of the entry at which Enter is pressed.

    Args:
        ticked: the ticked entries; None: no ticking. The last entry cannot be ticked.
    """
    chosen, rows = 0, _rows(len(entries))
    with _keys_unbuffered():
        _draw(entries, chosen, rows, ticked)
        while (key := _read_key(is_open)) not in _ENTER:
            if key == _END_OF_FILE:
                raise EOFError
            if key == _TICK and ticked is not None and chosen < len(entries) - 1:
                ticked ^= {chosen}
            chosen = moved(chosen, key, len(entries))
            control(f"\x1b[{len(rows)}A")
            rows = window(rows, chosen)
            _draw(entries, chosen, rows, ticked)
    return chosen


def moved(chosen: int, key: str, count: int) -> int:
    """Return the position after a key: arrows wrap around, a digit jumps to that entry."""
    if key in _UP:
        return (chosen - 1) % count
    if key in _DOWN:
        return (chosen + 1) % count
    if key.isdecimal() and 1 <= int(key) <= count:
        return int(key) - 1
    return chosen


def _rows(count: int) -> range:
    """Return the range of entries shown first: all, if they fit below the question."""
    return range(min(count, max(_LEAST_ROWS, shutil.get_terminal_size().lines - 2)))


def window(rows: range, chosen: int) -> range:
    """Return the shown range, moved just enough to contain the chosen entry."""
    move = min(0, chosen - rows.start) + max(0, chosen - rows[-1])
    return range(rows.start + move, rows.stop + move)


def _draw(entries: Sequence[str], chosen: int, rows: range, ticked: set[int] | None) -> None:
    width = shutil.get_terminal_size().columns
    for place in rows:
        # Arrows at the edges mean that there is more.
        more = "↑" if place == rows[0] > 0 else "↓" if place == rows[-1] < len(entries) - 1 else " "
        mark = "➤" if place == chosen else more
        box = "" if ticked is None or place == len(entries) - 1 else _box(place in ticked)
        line = f"{mark} {place + 1}) {box}{first_line(entries[place], width)}"
        control("\r\x1b[K")
        click.echo(style(shortened(line, width - 1), err=True, bold=place == chosen), err=True)


def _box(is_ticked: bool) -> str:
    return "[x] " if is_ticked else "[ ] "


@contextmanager
def _keys_unbuffered() -> Iterator[None]:
    """Read keys unbuffered and without echo; Ctrl-C still works."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _read_key(is_open: Callable[[], bool]) -> str:
    """Read one key: an escape sequence for an arrow, Ctrl-D for the end of input."""
    terminal = sys.stdin.fileno()
    key = read_input(1, is_open)
    if key == b"\x1b" and select.select([terminal], [], [], _SEQUENCE_S)[0]:
        key += os.read(terminal, 2)
    return key.decode(errors="replace") or _END_OF_FILE
