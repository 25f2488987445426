"""Matching answers with open questions, and validating them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.graphs.document.finding import printable
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import AnswerInvalid, AnswerRefused
from sleipnir.scheduler.runs.consent import MOST_LISTED, consent
from sleipnir.scheduler.runs.model import Question, Run

# Needed only to validate an answer.
with lazy_imports():
    from sleipnir.graphs import input_condition

if TYPE_CHECKING:
    from sleipnir.graphs.input_condition import Condition

_RUN_ID = re.compile("[0-9a-f]{16}")


def chosen(run_id: str, questions: Sequence[Question], node: str | None) -> Question | None:
    """Return the open question that an answer is for; None if there is none.

    Raises:
        AnswerRefused: several are open, and `node` does not single one out.
    """
    matching = [question for question in questions if node is None or question.is_asked_by(node)]
    if len(matching) > 1:  # the first of several calls is named like the function
        matching = [question for question in matching if question.place == node] or matching
    if len(matching) > 1:
        raise AnswerRefused(_which_question(run_id, matching))
    return matching[0] if matching else None


def run_of_question(question_id: str) -> str:
    """Return the id of the run that asks a question.

    Raises:
        AnswerRefused: this is not the id of a question.
    """
    run_id, slash, _ = question_id.partition("/")
    if not (slash and _RUN_ID.fullmatch(run_id)):
        raise AnswerRefused(
            f"'{printable(question_id)}' is not the id of a question, such as RUN/STEP/NODE; "
            "see: sleipnir inbox --json"
        )
    return run_id


def with_id(run_id: str, questions: Sequence[Question], question_id: str) -> Question:
    """Return the open question with an id, if it is one of a run or of its child runs.

    Raises:
        AnswerRefused: it is not, or no longer open.
    """
    for question in questions:
        if question.question_id == question_id:
            if run_id in (question.run_id, question.root_run_id):
                return question
            raise AnswerRefused(
                f"question {question_id} is one of run {question.root_run_id}, not of {run_id}"
            )
    raise AnswerRefused(
        f"question {question_id} is not open: it was answered or withdrawn, or never asked"
    )


def require_named(question: Question, question_id: str | None) -> None:
    """Check that consent to a guarded call names the question, and so the call, it is meant for.

    Raises:
        AnswerRefused: it does not.
    """
    if question.is_guard and question.question_id != question_id:
        call = question.guarded_call
        about = "" if call is None else f":\n{call.to_text(MOST_LISTED)}\n"
        raise AnswerRefused(
            f"consent to a guarded call must name its question{about or '; '}"
            f"answer it with: {how_to_answer(question)}"
        )


def how_to_answer(question: Question) -> str:
    """Return the command that answers a question."""
    if question.is_guard:
        return f"sleipnir answer {question.run_id} --question {question.question_id} yes"
    return f"sleipnir answer {question.run_id} TEXT --node {question.place}"


def none_open(run: Run, node: str | None) -> AnswerRefused:
    """Return the error that says why there is nothing to answer."""
    if run.is_final:
        return AnswerRefused(f"run {run.run_id} has ended ({run.status}); it accepts no answers")
    if node is not None and run.visits.get(node, 0) > 0:
        return AnswerRefused(f"the question of node '{node}' was already answered")
    where = f" at node '{node}'" if node is not None else ""
    return AnswerRefused(f"run {run.run_id} has no open question{where}")


def _which_question(run_id: str, questions: Sequence[Question]) -> str:
    if len({question.run_id for question in questions}) == 1:
        places = ", ".join(sorted(question.place for question in questions))
        return f"run {run_id} asks several questions ({places}); name one with --node"
    asking = ", ".join(f"{question.place} of run {question.run_id}" for question in questions)
    return f"several child runs of {run_id} ask ({asking}); answer one of them"


def accepted(question: Question, text: str, limit_bytes: int) -> str:
    """Return the answer in the form that the visit gets.

    Raises:
        AnswerInvalid: it is too large, or not what the question asks for.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > limit_bytes:
        raise AnswerInvalid(
            f"the answer has {size} bytes; the limit of a value is {limit_bytes} "
            "(value_limit_bytes)"
        )
    if question.kind == "confirm":
        agreed = consent(text)
        if agreed is None:
            raise AnswerInvalid(f"'{text}' is not a valid answer: expected yes or no")
        return agreed
    if question.kind in ("approval", "ask"):
        return nearest_option(question.options, text)
    if not satisfies(question, text):
        raise AnswerInvalid(
            f"the answer has {len(text)} characters, which does not satisfy "
            f"{question.validation}; the question stays open"
        )
    return text


def nearest_option(options: Sequence[str], text: str) -> str:
    """Return the option that an answer means, or the answer without the blanks around it.

    It means the option that it equals, or else the only one that it equals but for case and the
    blanks around it.
    """
    if text in options:
        return text
    plain = text.strip()
    if plain in options:
        return plain
    near = {option for option in options if option.strip().casefold() == plain.casefold()}
    return near.pop() if len(near) == 1 else plain


def satisfies(question: Question, text: str) -> bool:
    """Return whether the validation accepts a text; an empty text means the default."""
    condition = _condition(question)
    return condition is None or (not text and bool(question.default)) or condition.accepts(text)


def _condition(question: Question) -> Condition | None:
    try:
        return (
            input_condition.parse_validation(question.validation) if question.validation else None
        )
    except ValueError:  # the graph was not validated: its node reports this when it gets the answer
        return None
