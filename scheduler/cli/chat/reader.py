"""Reads messages from a terminal, with history and multiple lines, or from a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.terminal import is_terminal, read_line, show
from sleipnir.scheduler.config.directories import data_dir

with lazy_imports():
    import prompt_toolkit
    from prompt_toolkit import history
    from prompt_toolkit.key_binding import key_bindings
    from prompt_toolkit.output import vt100

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent

# Given what was typed of it already, returns the next message, or None at the end of the input;
# Ctrl-C raises KeyboardInterrupt.
Reader: TypeAlias = Callable[[str], str | None]

_PROMPT = "> "
_FOR_ITS_OWNER = 0o600


class EarlyInput:
    """What was typed before a question was on the screen: messages, and the beginning of one."""

    def __init__(self) -> None:
        self._text = ""

    def keep(self, typed: str) -> None:
        """Add what was typed, but for keys that are no text."""
        self._text += "".join(char for char in typed if char == "\n" or char.isprintable())

    def next_message(self, read: Reader) -> str | None:
        """Return the next message: one that was typed early, or what is read now."""
        while "\n" in self._text:
            line, _, self._text = self._text.partition("\n")
            if line.strip():
                show(f"{_PROMPT}{line}\n")
                return line
        begun, self._text = self._text, ""
        return read(begun)


def reader_for(agent: str) -> Reader:
    """Return the reader of messages to an agent for this terminal or pipe."""
    if not is_terminal():
        return _from_pipe
    if os.environ.get("TERM", "dumb") == "dumb":
        return _from_plain_terminal
    return _Editor(data_dir() / "chat" / agent)


def _from_pipe(_: str) -> str | None:
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _from_plain_terminal(begun: str) -> str | None:
    show(f"{_PROMPT}{begun}")
    try:
        return begun + read_line()
    except EOFError:
        return None


class _Editor:
    """An editor with persistent history; pasted lines stay one message."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(_FOR_ITS_OWNER)
        # Not sys.stderr, which escapes control sequences.
        self._screen = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")
        output = vt100.Vt100_Output.from_pty(self._screen, term=os.environ.get("TERM"))
        output.enable_cpr = False  # not every terminal reports its cursor position
        self._session: prompt_toolkit.PromptSession[str] = prompt_toolkit.PromptSession(
            message=_PROMPT,
            multiline=True,
            prompt_continuation=". ",
            history=history.FileHistory(str(file)),
            key_bindings=_keys(),
            output=output,
        )

    def __call__(self, begun: str) -> str | None:
        try:
            return self._session.prompt(default=begun)
        except EOFError:
            return None


def _keys() -> key_bindings.KeyBindings:
    """Return the bindings: Enter sends; Alt-Enter, or Escape then Enter, starts a new line."""
    keys = key_bindings.KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
