"""Documents of open questions: the list, and groups of similar ones."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.queries.questions import QuestionQueries
from sleipnir.scheduler.views.documents import Document, question_document
from sleipnir.scheduler.views.pages import page_document

# The questions searched for similar ones.
_MOST_COMPARED = 1_000


def inbox_page(
    queries: QuestionQueries,
    *,
    limit: int,
    cursor: str | None = None,
    agents: Sequence[str] = (),
    batch: str | None = None,
    node: str | None = None,
    text: str | None = None,
    until_ms: int | None = None,
) -> Document:
    """Return a page of open questions, oldest first, each with its age.

    Args:
        agents: only questions of these agents' runs; empty: of all.
        batch: only questions of its runs and of their child runs.
        node: only questions of this node; `text`: only questions that contain it.
        until_ms: only questions asked before this instant.

    Raises:
        BadCursor: the cursor does not belong to a list of questions.
    """
    page = queries.list_questions(
        limit, cursor, agents=agents, batch=batch, node=node, text=text, until_ms=until_ms
    )
    now_ms = queries.now_ms()
    documents = [
        {**question_document(question), "age_s": (now_ms - question.asked_at) / 1000}
        for question in page.entries
    ]
    return page_document(page, "questions", documents)


def alike_document(queries: QuestionQueries) -> Document:
    """Return nodes with several of the oldest questions, those with the most first."""
    groups: dict[tuple[str, str], list[Question]] = {}
    for question in queries.list_questions(_MOST_COMPARED).entries:
        groups.setdefault((question.agent, question.node), []).append(question)
    found = [
        {"agent": agent, "node": node, "count": len(alike), "text": alike[0].text}
        for (agent, node), alike in groups.items()
        if len(alike) > 1
    ]
    return {"alike": sorted(found, key=lambda group: -group["count"])}
