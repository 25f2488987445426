"""Asks the person at the terminal a run's questions; all output goes to stderr."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.terminal import read_line, rows_of, show, typed_so_far
from sleipnir.scheduler.runs.answers import satisfies
from sleipnir.scheduler.runs.consent import consent
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.views.text.formatting import call_lines

with lazy_imports():
    from sleipnir.scheduler.cli import menu

Echo = Callable[[str], None]
ReadLine = Callable[[], str]


def ignore_early(_: str) -> None:
    """Say that what was typed before a question does not answer it."""
    show("  what was typed before this question does not answer it\n")


def ask(
    question: Question,
    is_open: Callable[[], bool] = lambda: True,
    take_early: Callable[[str], None] = ignore_early,
) -> str:
    """Ask the person at the terminal, and return the answer.

    Args:
        take_early: gets what was typed before the question was on the screen.

    Raises:
        EOFError: the person pressed Ctrl-D.
        Withdrawn: `is_open`, which is polled, said that no answer is needed any more.
    """
    if early := typed_so_far():
        take_early(early)
    if question.user:
        show(f"  run {question.run_id} of {question.user}\n")
    show("".join(f"  {line}\n" for line in call_lines(question)))
    show(f"? {question.text}\n")
    read = partial(read_line, is_open)
    if question.kind == "input":
        return ask_for_text(question, show, read)
    if question.kind == "confirm":
        return ask_for_consent(show, read)
    if question.options and os.environ.get("TERM", "dumb") != "dumb":
        return _ask_by_menu(question, is_open) or ask_for_choice((), show, read)
    if question.kind == "checkbox" and question.options:
        return ask_for_several(question.options, show, read)
    return ask_for_choice(question.options, show, read)


def _ask_by_menu(question: Question, is_open: Callable[[], bool]) -> str | None:
    """Ask with a menu; return None if the person wants to write an answer."""
    several = question.kind == "checkbox"
    rows = rows_of(f"? {question.text}")
    if several:
        show("  space selects, Enter answers\n")
        rows += 1
    chosen = menu.choose(question.options, is_open, above=rows, several=several)
    return json.dumps(chosen, ensure_ascii=False) if isinstance(chosen, list) else chosen


def ask_for_text(question: Question, echo: Echo, read: ReadLine) -> str:
    """Ask for a line that the question's validation accepts; an empty one means the default."""
    prompt = f"[default: {question.default}] > " if question.default else "> "
    while True:
        echo(prompt)
        text = read()
        if satisfies(question, text):
            return text
        echo(f"  {len(text)} characters; it must satisfy {question.validation}\n")


def ask_for_consent(echo: Echo, read: ReadLine, default: str = "no") -> str:
    """Ask for `yes` or `no`, in any spelling; an empty line means the default."""
    while True:
        echo("[y/N] > " if default == "no" else "[Y/n] > ")
        agreed = consent(read().strip() or default)
        if agreed is not None:
            return agreed
        echo("  yes or no?\n")


def ask_for_choice(options: Sequence[str], echo: Echo, read: ReadLine) -> str:
    """Ask for one option, by number or text, or for any other non-empty text."""
    for number, option in enumerate(options, 1):
        echo(f"  {number}) {option}\n")
    if options:
        echo("  enter a number, or your own answer\n")
    while True:
        echo("> ")
        if text := read():
            return menu.typed_choice(options, text)


def ask_for_several(options: Sequence[str], echo: Echo, read: ReadLine) -> str:
    """Ask for any number of options, by comma-separated numbers, or for another text."""
    for number, option in enumerate(options, 1):
        echo(f"  {number}) {option}\n")
    echo("  enter numbers separated by commas, nothing for none, or your own answer\n> ")
    chosen = menu.typed_choices(options, read())
    return json.dumps(chosen, ensure_ascii=False) if isinstance(chosen, list) else chosen
