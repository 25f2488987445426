"""Asks the person at the terminal a run's question; everything is shown on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import click

from scheduler.cli.layout import printable
from scheduler.run import Question

Echo = Callable[[str], None]
ReadLine = Callable[[], str]


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: Question) -> str:
    """The answer of the person at the terminal.

    Raises:
        EOFError: they do not want to answer (Ctrl-D).
    """
    show(f"? {question.text}\n")
    if question.kind == "input":
        return ask_for_text(question, show, read_line)
    if question.options and os.environ.get("TERM", "dumb") != "dumb":
        # termios, which not every platform has; there, options are chosen by number.
        from scheduler.cli.menu import choose  # noqa: PLC0415

        chosen = choose(question.options)
        if chosen is not None:
            return chosen
        return ask_for_choice((), show, read_line)
    return ask_for_choice(question.options, show, read_line)


def ask_for_text(question: Question, echo: Echo, read: ReadLine) -> str:
    """One line that the question's validation accepts; an empty one stands for the default."""
    # The expression language, which most questions do without.
    from graphs.expression import parse_validation  # noqa: PLC0415

    accepts = parse_validation(question.validation).accepts if question.validation else None
    prompt = f"[default: {question.default}] > " if question.default else "> "
    while True:
        echo(prompt)
        text = read()
        if accepts is None or (not text and question.default) or accepts(text):
            return text
        echo(f"  {len(text)} characters; it must satisfy {question.validation}\n")


def ask_for_choice(options: Sequence[str], echo: Echo, read: ReadLine) -> str:
    """One of the options, by its number or its text, or any other text that is not empty."""
    for number, option in enumerate(options, 1):
        echo(f"  {number}) {option}\n")
    if options:
        echo("  a number, or an answer of your own\n")
    while True:
        echo("> ")
        text = read()
        if text in options or not text.isdecimal():
            if text:
                return text
        elif 1 <= int(text) <= len(options):
            return options[int(text) - 1]
        else:
            return text


def show(text: str) -> None:
    """Write to the terminal, without a line end of our own."""
    click.echo(printable(text), err=True, nl=False)


def read_line() -> str:
    """A line from the terminal.

    Raises:
        EOFError: there is none (Ctrl-D).
    """
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")
