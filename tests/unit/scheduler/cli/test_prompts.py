"""Questions at the terminal: what counts as an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sleipnir.scheduler.cli.menu import Choosing, window
from sleipnir.scheduler.cli.prompts import (
    ask_for_choice,
    ask_for_consent,
    ask_for_several,
    ask_for_text,
)
from sleipnir.scheduler.runs.model import Question


def a_question(**fields: Any) -> Question:
    values = {
        "run_id": "r",
        "root_run_id": "r",
        "agent": "a",
        "visit": "1/n",
        "node": "n",
        "visit_number": 1,
        "kind": "input",
        "text": "?",
        "options": (),
        "default": None,
        "validation": None,
        **fields,
    }
    return Question(**values)


class Person:
    """Types given lines, and remembers what it was shown."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.shown = ""

    def echo(self, text: str) -> None:
        self.shown += text

    def read(self) -> str:
        return self._lines.pop(0)


@pytest.mark.parametrize(
    ("options", "lines", "answer"),
    [
        (("yes", "no"), ["2"], "no"),
        (("yes", "no"), ["no"], "no"),
        (("yes", "no"), ["maybe"], "maybe"),
        (("yes", "no"), ["3"], "3"),
        (("yes", "no"), ["0"], "0"),
        (("10", "2"), ["2"], "2"),
        (("yes", "no"), ["", "", "1"], "yes"),
        ((), ["1"], "1"),
    ],
)
def test_a_choice_is_a_number_an_option_or_a_text_of_ones_own(
    options: Sequence[str], lines: list[str], answer: str
) -> None:
    person = Person(*lines)

    assert ask_for_choice(options, person.echo, person.read) == answer


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ([""], "no"),
        (["  "], "no"),
        (["Y"], "yes"),
        ([" no "], "no"),
        (["maybe", "why?", "false"], "no"),
    ],
)
def test_consent_is_given_or_refused_and_nothing_else(lines: list[str], answer: str) -> None:
    person = Person(*lines)

    assert ask_for_consent(person.echo, person.read) == answer
    assert person.shown.count("[y/N] > ") == len(lines)


def test_a_text_is_asked_for_until_it_is_valid() -> None:
    person = Person("a", "", "abcd")
    question = a_question(validation="len(input) > 3")

    assert ask_for_text(question, person.echo, person.read) == "abcd"
    assert person.shown.count("must satisfy len(input) > 3") == 2


def test_an_empty_text_stands_for_the_default_and_is_not_checked() -> None:
    person = Person("")
    question = a_question(validation="len(input) > 3", default="ab")

    assert ask_for_text(question, person.echo, person.read) == ""
    assert person.shown == "[default: ab] > "


def test_an_empty_text_without_a_default_is_an_answer() -> None:
    assert ask_for_text(a_question(), lambda _: None, Person("").read) == ""


UP, DOWN, DELETE = "\x1b[A", "\x1b[B", "\x7f"
FORTY = tuple(f"option{n}" for n in range(1, 41))


@pytest.mark.parametrize(
    ("options", "keys", "answer"),
    [
        (("publish", "drop"), "", "publish"),
        (("publish", "drop"), [UP], None),
        (("publish", "drop"), ["\x1bOA", UP], "drop"),
        (("publish", "drop"), [DOWN, "\x1b[3~"], "drop"),
        (("publish", "drop"), "drop", "drop"),
        (("publish", "drop"), " DROP ", "drop"),
        (("publish", "drop"), "dro", "dro"),
        (("publish", "drop"), ["d", DELETE], "publish"),
        (("publish", "drop"), ["x", "y", "\x15"], "publish"),
        (("publish", "drop"), ["x", DOWN], "drop"),
        (("publish", "drop"), "2", "drop"),
        (("publish", "drop"), "3", None),
        (("publish", "drop"), "4", "4"),
        (("publish", "drop"), "0", "0"),
        (("publish", "drop"), "not yet, 2 days", "not yet, 2 days"),
        (FORTY, "37", "option37"),
        (("10", "2"), "2", "2"),
        (("Yes", "yes"), "yes", "yes"),
        (("Yes", "yes"), "YES", "YES"),
        ((" é ", "é é"), "É", " é "),
    ],
)
def test_what_is_typed_is_what_is_sent(
    options: tuple[str, ...], keys: Sequence[str], answer: str | None
) -> None:
    selection = Choosing(options)

    for key in keys:
        selection = selection.after(key)

    assert selection.answer() == answer


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("", []),
        ([" ", DOWN, " "], ["tea", "milk"]),
        (["2", " ", " "], []),
        (["2", " "], ["milk"]),
        ([UP, " "], None),
        ("3,1", ["rum", "tea"]),
        ("Milk, tea", ["milk", "tea"]),
        ("some water", "some water"),
    ],
)
def test_several_options_are_ticked_or_typed(
    keys: Sequence[str], answer: list[str] | str | None
) -> None:
    selection = Choosing(("tea", "milk", "rum"), ticked=frozenset())

    for key in keys:
        selection = selection.after(key)

    assert selection.answer() == answer


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("1,3", '["tea", "rum"]'),
        ("milk, 1", '["milk", "tea"]'),
        ("", "[]"),
        ("something else", "something else"),
    ],
)
def test_several_options_are_chosen_by_number(typed: str, answer: str) -> None:
    said: list[str] = []

    assert ask_for_several(["tea", "milk", "rum"], said.append, lambda: typed) == answer
    assert "1) tea" in said[0]


@pytest.mark.parametrize(
    ("rows", "chosen", "shown"),
    [
        (range(0, 5), 4, range(0, 5)),
        (range(0, 5), 5, range(1, 6)),
        (range(0, 5), 9, range(5, 10)),
        (range(5, 10), 4, range(4, 9)),
        (range(5, 10), 0, range(0, 5)),
    ],
)
def test_a_menu_scrolls_as_little_as_it_must(rows: range, chosen: int, shown: range) -> None:
    assert window(rows, chosen) == shown
