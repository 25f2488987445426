"""Documents of open questions: the list, and groups of similar ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.records import Deadline
from sleipnir.scheduler.views.documents import question_document
from sleipnir.scheduler.views.pages import page_fields, searched_fields

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import questions as types

_URGENT = 0.1  # of the time of a run
# The questions searched for similar ones.
_MOST_COMPARED = 1_000


def inbox_page(
    queries: RunQueries,
    *,
    limit: int,
    cursor: str | None = None,
    agents: Sequence[str] = (),
    batch: str | None = None,
    node: str | None = None,
    text: str | None = None,
    until_ms: int | None = None,
) -> types.QuestionListDocument:
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
    deadlines = queries.deadlines([question.run_id for question in page.entries])
    origins = queries.origins(sorted({question.root_run_id for question in page.entries}))
    documents: list[types.AgedQuestionDocument] = [
        {
            **question_document(question),
            "batch": origins[question.root_run_id][0],
            "item": origins[question.root_run_id][1],
            "age_s": (now_ms - question.asked_at) / 1000,
            **_deadline_document(deadline, now_ms),
        }
        for question, deadline in zip(page.entries, deadlines, strict=True)
    ]
    return {
        "questions": documents,
        **page_fields(page),
        "searched": {**searched_fields(page), "questions": page.searched.entries},
    }


def _deadline_document(deadline: Deadline | None, now_ms: int) -> types.TimeLeftDocument:
    if deadline is None:
        return {"deadline": None, "left_s": None, "is_urgent": False}
    left_ms = max(0, deadline.at - now_ms)
    return {
        "deadline": to_rfc3339(deadline.at),
        "left_s": left_ms / 1000,
        "is_urgent": left_ms < _URGENT * deadline.allowed_ms,
    }


def alike_document(queries: RunQueries) -> list[types.QuestionsAlikeDocument]:
    """Return nodes with several of the oldest questions, those with the most first."""
    groups: dict[tuple[str, str], list[Question]] = {}
    for question in queries.list_questions(_MOST_COMPARED).entries:
        groups.setdefault((question.agent, question.node), []).append(question)
    found: list[types.QuestionsAlikeDocument] = [
        {"agent": agent, "node": node, "count": len(alike), "text": alike[0].text}
        for (agent, node), alike in groups.items()
        if len(alike) > 1
    ]
    return sorted(found, key=lambda group: -group["count"])
