"""The list of open questions."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.scheduler.store.queries.questions import QuestionQueries
from sleipnir.scheduler.views.documents import Document, question_document
from sleipnir.scheduler.views.pages import page_document


def inbox_page(
    queries: QuestionQueries,
    *,
    limit: int,
    cursor: str | None = None,
    agents: Sequence[str] = (),
    batch: str | None = None,
) -> Document:
    """A page of open questions, oldest first, each with its age.

    Args:
        agents: only questions of their runs; empty: of any.
        batch: only questions of its runs and of their child runs.

    Raises:
        BadCursor: the cursor is not one of a list of questions.
    """
    page = queries.list_questions(limit, cursor, agents=agents, batch=batch)
    now_ms = queries.now_ms()
    documents = [
        {**question_document(question), "age_s": (now_ms - question.asked_at) / 1000}
        for question in page.entries
    ]
    return page_document(page, "questions", documents)
