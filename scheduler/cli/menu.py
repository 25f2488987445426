"""A terminal menu: options are chosen with the arrow keys, by number, or by typing.

What is typed is shown below the options, and is what Enter sends: a number or an option means that
option, anything else is an answer of one's own. With nothing typed, Enter takes the marked line.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import click

from sleipnir.records import dataclass
from sleipnir.scheduler.cli.terminal import keys_unbuffered, read_input
from sleipnir.scheduler.runs.answers import nearest_option
from sleipnir.scheduler.views.text.formatting import first_line
from sleipnir.scheduler.views.text.terminal_output import control, printable, shortened, style

OTHER = "another answer …"

_LEAST_ROWS = 3
_PROMPT = "> "
_UP = ("\x1b[A", "\x1bOA")
_DOWN = ("\x1b[B", "\x1bOB")
_ENTER = ("\r", "\n")
_DELETE = ("\x7f", "\x08")
_DELETE_ALL = "\x15"
_TICK = " "
_END_OF_FILE = "\x04"
# An escape sequence arrives at once, unlike keys typed after the Escape key.
_SEQUENCE_S = 0.05


@dataclass(frozen=True, slots=True)
class Choosing:
    """What a person has chosen, ticked and typed so far."""

    options: tuple[str, ...]
    marked: int = 0  # the line at which Enter is pressed; the last one is `OTHER`
    typed: str = ""
    ticked: frozenset[int] | None = None  # None: one option is chosen

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.options) + 1

    def after(self, key: str) -> Choosing:
        """Return the selection after a key."""
        if key in _UP or key in _DOWN:
            step = -1 if key in _UP else 1
            return replace(self, marked=(self.marked + step) % self.count, typed="")
        if key in _DELETE:
            return self._with(self.typed[:-1])
        if key == _DELETE_ALL:
            return self._with("")
        if key == _TICK and self.ticked is not None and self._ticks_now():
            ticked = self.ticked ^ ({self.marked} - {len(self.options)})
            return replace(self, ticked=ticked, typed="")
        return self._with(self.typed + key) if key.isprintable() else self

    def answer(self) -> str | list[str] | None:
        """Return what Enter sends: an option, several, or a text; None: ask for a text."""
        if not self.typed.strip() and self.marked == len(self.options):
            return None
        if self.ticked is not None:
            if not self.typed.strip():
                return [option for n, option in enumerate(self.options) if n in self.ticked]
            return typed_choices(self.options, self.typed)
        if not self.typed.strip():
            return self.options[self.marked]
        if self.typed.strip() == str(self.count):
            return None
        return typed_choice(self.options, self.typed)

    def _with(self, typed: str) -> Choosing:
        """Return the selection with another text, and the line marked that it means."""
        choice = typed_choice(self.options, typed)
        if typed.strip() == str(self.count):
            marked = len(self.options)
        else:
            marked = self.options.index(choice) if choice in self.options else self.marked
        return replace(self, typed=typed, marked=marked)

    def _ticks_now(self) -> bool:
        """Whether a space ticks the marked line; otherwise it is part of a text."""
        text = self.typed.strip()
        return not text or (text.isdecimal() and 1 <= int(text) <= self.count)


def typed_choice(options: Sequence[str], text: str) -> str:
    """Return the option that a typed text means, by its number or as it is written, or the text."""
    choice = nearest_option(options, text)
    number = text.strip()
    if choice not in options and number.isdecimal() and 1 <= int(number) <= len(options):
        return options[int(number) - 1]
    return choice


def typed_choices(options: Sequence[str], text: str) -> list[str] | str:
    """Return the options that a text means, separated by commas, or the text if it is no list."""
    choices = [typed_choice(options, part) for part in text.split(",") if part.strip()]
    return choices if all(choice in options for choice in choices) else text.strip()


def choose(
    options: Sequence[str], is_open: Callable[[], bool], *, above: int = 1, several: bool = False
) -> str | list[str] | None:
    """Let the person choose; return an option, a text, or None to be asked for a text.

    Args:
        above: rows of the screen that the question takes, which stays visible if possible.
        several: whether options are ticked with the space bar, and a list is returned.

    Raises:
        EOFError: the person pressed Ctrl-D.
        Withdrawn: `is_open` turned false.
    """
    selection = Choosing(tuple(options), ticked=frozenset() if several else None)
    rows = _rows(selection.count, above)
    with keys_unbuffered():
        try:
            _draw(selection, rows)
            while (key := _read_key(is_open)) not in _ENTER:
                if key == _END_OF_FILE:
                    raise EOFError
                selection = selection.after(key)
                control(f"\r\x1b[{len(rows)}A")
                rows = window(rows, selection.marked)
                _draw(selection, rows)
        finally:
            control("\n")
    return selection.answer()


def _rows(count: int, above: int) -> range:
    """Return the range of lines shown first: all, if they fit below the question."""
    left = shutil.get_terminal_size().lines - above - 2
    return range(min(count, max(_LEAST_ROWS, left)))


def window(rows: range, marked: int) -> range:
    """Return the shown range, moved just enough to contain the marked line."""
    move = min(0, marked - rows.start) + max(0, marked - rows[-1])
    return range(rows.start + move, rows.stop + move)


def _draw(selection: Choosing, rows: range) -> None:
    """Draw the lines, and below them what is typed, where the cursor stays."""
    width = shutil.get_terminal_size().columns
    entries = [*selection.options, OTHER]
    sent = selection.answer() if selection.typed.strip() else None
    for n in rows:
        # Arrows at the edges mean that there is more.
        more = "↑" if n == rows[0] > 0 else "↓" if n == rows[-1] < len(entries) - 1 else " "
        is_sent = n == selection.marked and (
            not selection.typed.strip() or sent is None or entries[n] == sent
        )
        box = "" if selection.ticked is None or n == len(entries) - 1 else _box(n, selection.ticked)
        line = f"{'➤' if is_sent else more} {n + 1}) {box}{first_line(entries[n], width)}"
        control("\r\x1b[K")
        click.echo(style(shortened(line, width - 1), err=True, bold=is_sent), err=True)
    control("\r\x1b[K")
    line = printable(selection.typed)[-(width - len(_PROMPT) - 1) :]
    click.echo(f"{_PROMPT}{line}", err=True, nl=False)


def _box(n: int, ticked: frozenset[int]) -> str:
    return "[x] " if n in ticked else "[ ] "


def _read_key(is_open: Callable[[], bool]) -> str:
    """Read one key: a character or an escape sequence; Ctrl-D at the end of input."""
    key = read_input(1, is_open)
    if key == b"\x1b":
        key += _rest_of_sequence()
    elif key and key[0] >= 0xC0:  # a character of several bytes
        left = 1 + (key[0] >= 0xE0) + (key[0] >= 0xF0)
        while left and (more := _at_once()):
            key, left = key + more, left - 1
    return key.decode(errors="replace") or _END_OF_FILE


def _rest_of_sequence() -> bytes:
    """Read the rest of an escape sequence, so that none of it counts as typed."""
    rest = _at_once()
    while rest.startswith(b"[") and (len(rest) == 1 or not 0x40 <= rest[-1] <= 0x7E):
        if not (more := _at_once()):
            break
        rest += more
    return rest + _at_once() if rest == b"O" else rest


def _at_once() -> bytes:
    """Read a byte that belongs to the one before."""
    terminal = sys.stdin.fileno()
    return os.read(terminal, 1) if select.select([terminal], [], [], _SEQUENCE_S)[0] else b""
