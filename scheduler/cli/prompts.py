"""Asks the person at the terminal a run's questions; all output goes to stderr."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.terminal import read_line, show
from sleipnir.scheduler.cli.terminal_output import printable
from sleipnir.scheduler.runs.answers import satisfies
from sleipnir.scheduler.runs.consent import consent
from sleipnir.scheduler.runs.model import Question

with lazy_imports():
    from sleipnir.scheduler.cli import menu

Echo = Callable[[str], None]
ReadLine = Callable[[], str]


def ask(question: Question, is_open: Callable[[], bool] = lambda: True) -> str:
    """Ask the person at the terminal, and return the answer.

    Raises:
        EOFError: the person pressed Ctrl-D.
        Withdrawn: `is_open`, which is polled, said that no answer is needed any more.
    """
    show("".join(f"  {line}\n" for line in call_lines(question)))
    show(f"? {question.text}\n")
    read = partial(read_line, is_open)
    if question.kind == "input":
        return ask_for_text(question, show, read)
    if question.kind == "confirm":
        return ask_for_consent(show, read)
    options, has_menu = question.options, os.environ.get("TERM", "dumb") != "dumb"
    if question.kind == "checkbox" and not (options and has_menu):
        return ask_for_several(options, show, read)
    if question.kind == "checkbox":
        show("  space selects, Enter answers\n")
        ticked = menu.choose_several(options, is_open)
        if ticked is not None:
            return json.dumps(ticked, ensure_ascii=False)
        return ask_for_choice((), show, read)
    if options and has_menu:
        chosen = menu.choose(options, is_open)
        if chosen is not None:
            return chosen
        options = ()
    return ask_for_choice(options, show, read)


def call_lines(question: Question) -> list[str]:
    """Return the guarded call that a question is about, in full; nothing for other questions."""
    call = question.guarded_call
    return [] if call is None else ["call:", *printable(call.to_text()).split("\n")]


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
    numbered = {str(number): option for number, option in enumerate(options, 1)}
    while True:
        echo("> ")
        if text := read():
            return text if text in options else numbered.get(text, text)


def ask_for_several(options: Sequence[str], echo: Echo, read: ReadLine) -> str:
    """Ask for any number of options, by comma-separated numbers, or for another text."""
    for number, option in enumerate(options, 1):
        echo(f"  {number}) {option}\n")
    echo("  enter numbers separated by commas, nothing for none, or your own answer\n> ")
    text = read()
    numbered = {str(number): option for number, option in enumerate(options, 1)}
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if all(part in numbered or part in options for part in parts):
        return json.dumps([numbered.get(part, part) for part in parts], ensure_ascii=False)
    return text
