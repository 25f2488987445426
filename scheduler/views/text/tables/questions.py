"""The tables of open questions, and of links to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.consent import MOST_LISTED, call_text
from sleipnir.scheduler.views.text import formatting
from sleipnir.scheduler.views.text.terminal_output import printable

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.questions import AgedQuestionDocument, KnownLinkDocument

_HEAD = ("RUN", "AGENT", "NODE", "AGE", "QUESTION", "OPTIONS")
_LINKS_HEAD = ("FOR", "UNTIL", "QUESTION")


def lines_of(questions: Iterable[AgedQuestionDocument], *, fit: bool = True) -> list[str]:
    """Return the lines of the table, which fit the terminal, from documents of questions.

    Guarded calls follow, each with the command that consents to it.
    """
    found = list(questions)
    table = formatting.columns(_HEAD, [_row(question) for question in found], fit=fit)
    return [*table, *itertools.chain.from_iterable(map(_guarded, found))]


def link_lines(links: Sequence[KnownLinkDocument]) -> Iterator[str]:
    """Yield the lines of a table of answer links."""
    rows = [(each["recipient"], each["expires_at"], each["question_id"]) for each in links]
    yield from formatting.columns(_LINKS_HEAD, rows)


def _guarded(question: AgedQuestionDocument) -> Iterator[str]:
    call, run_id = question["guarded_call"], question["run_id"]
    if call is None:
        return
    text = call_text(call["function"], call["arguments"], MOST_LISTED)
    yield ""
    yield f"{run_id} asks for consent to this call of {question['agent']}:"
    yield from (f"  {line}" for line in printable(text).split("\n"))
    if len(text) > MOST_LISTED:
        yield f"  see all of it with: sleipnir show {run_id}"
    yield f"  consent with: sleipnir answer {run_id} --question {question['question_id']} yes"


def _row(question: AgedQuestionDocument) -> tuple[str, ...]:
    choice = " | ".join(question["options"]) or (question["default"] or "")
    return (
        question["run_id"],
        question["agent"],
        question["place"],
        formatting.age(question["age_s"]),
        formatting.first_line(question["text"]),
        formatting.first_line(choice),
    )
