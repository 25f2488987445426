"""Gives a person's answers at the terminal, and records them in the audit log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sleipnir.graphs.errors import BundleError
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.many import audit
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.views.text.terminal_output import printable

# Needed only for answers that are none of the options.
with lazy_imports():
    from sleipnir.scheduler.views import inbox

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


def give(client: Client, question: Question, text: str) -> str:
    """Answer exactly this question; return the answer as it was accepted.

    Raises:
        AnswerRefused: it is not open any more, or the text is invalid (AnswerInvalid).
    """
    text = client.answer_question(question, text, by=client.store.settings.identity, via="cli")
    audit.note(
        client,
        "answer",
        [question.question_id],
        detail=text,
        waited_s=client.queries.waited_s(question),
        question=question,
    )
    return text


def other_than_offered(client: Client, question: Question, answer: str) -> str | None:
    """Return in words that an accepted answer is none of the options, and where it leads."""
    if not question.options or answer in question.options:
        return None
    run = client.queries.run(question.run_id)
    to = None
    if not run.context.converses:
        with suppress(BundleError):
            to = inbox.route_of(question, client.graph_of(run), answer)
    leads = "" if to is None else f"; it leads to '{to}'"
    return printable(f"'{answer}' is none of its options ({', '.join(question.options)}){leads}")
