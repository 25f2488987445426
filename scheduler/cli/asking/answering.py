"""Gives a person's answers at the terminal, and records them in the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.cli.many import audit
from sleipnir.scheduler.runs.model import Question

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


def give(client: Client, question: Question, text: str) -> None:
    """Answer exactly this question.

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
