"""Documents of open questions: the list, and groups of similar ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.records import Deadline
from sleipnir.scheduler.views.documents import question_document
from sleipnir.scheduler.views.pages import page_fields, searched_fields

if TYPE_CHECKING:
    from sleipnir.scheduler.client.inbound.answer_links import KnownAnswerLink, NewAnswerLink
    from sleipnir.scheduler.views.types import questions as types

_URGENT = 0.1  # of the time of a run
# The oldest questions that are grouped.
_MOST_GROUPED = 1_000


def answer_link_document(
    question: Question, link: NewAnswerLink, recipient: str
) -> types.AnswerLinkDocument:
    """Return a link that was just made."""
    return {
        "question_id": question.question_id,
        "answer_url": link.url,
        "recipient": recipient,
        "expires_at": to_rfc3339(link.expires_at),
    }


def known_link_document(link: KnownAnswerLink) -> types.KnownLinkDocument:
    """Return a link that was made before."""
    return {
        "question_id": link.question_id,
        "recipient": link.recipient,
        "expires_at": to_rfc3339(link.expires_at),
    }


def revoked_link_document(question: Question, recipient: str) -> types.RevokedLinkDocument:
    """Return what has become of a link that opens nothing any more."""
    return {"question_id": question.question_id, "recipient": recipient, "revoked": True}


def inbox_page(
    queries: RunQueries,
    user: str,
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
        user: for whom questions are unread that this person has not opened.
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
    opened = queries.opened_by(user, page.entries)
    origins = queries.origins(sorted({question.root_run_id for question in page.entries}))
    documents: list[types.AgedQuestionDocument] = [
        {
            **question_document(question),
            "batch": origins[question.root_run_id][0],
            "item": origins[question.root_run_id][1],
            "age_s": (now_ms - question.asked_at) / 1000,
            "is_unread": question.question_id not in opened,
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


def groups_document(
    queries: RunQueries,
    user: str,
    *,
    agents: Sequence[str] = (),
    batch: str | None = None,
    node: str | None = None,
    text: str | None = None,
    until_ms: int | None = None,
) -> types.QuestionGroupsDocument:
    """Return the oldest open questions by the node that asks.

    Those that a person has not opened come first, of these urgent ones, then the oldest.

    Args:
        user: that person.
        agents, batch, node, text, until_ms: only some questions, as in `inbox_page`.
    """
    page = queries.list_questions(
        _MOST_GROUPED, agents=agents, batch=batch, node=node, text=text, until_ms=until_ms
    )
    now_ms = queries.now_ms()
    deadlines = queries.deadlines([question.run_id for question in page.entries])
    grouped: dict[tuple[str, str], list[tuple[Question, Deadline | None]]] = {}
    for question, deadline in zip(page.entries, deadlines, strict=True):
        grouped.setdefault((question.agent, question.node), []).append((question, deadline))
    opened = queries.opened_by(user, page.entries)
    groups = [_group_document(each, opened, now_ms) for each in grouped.values()]
    return {
        "groups": sorted(
            groups,
            key=lambda group: (not group["unread"], not group["is_urgent"], -group["age_s"]),
        ),
        "questions": len(page.entries),
        "is_all": page.next is None,
    }


def _group_document(
    alike: Sequence[tuple[Question, Deadline | None]], opened: Collection[str], now_ms: int
) -> types.QuestionGroupDocument:
    oldest = alike[0][0]
    ends = [deadline for _, deadline in alike if deadline is not None]
    offered = [_answers_to(question) for question, _ in alike]
    return {
        "agent": oldest.agent,
        "node": oldest.node,
        "count": len(alike),
        "unread": sum(question.question_id not in opened for question, _ in alike),
        "question_id": oldest.question_id,
        "text": oldest.text,
        "options": [each for each in offered[0] if all(each in others for others in offered)],
        "age_s": (now_ms - oldest.asked_at) / 1000,
        **_deadline_document(min(ends, key=lambda each: each.at, default=None), now_ms),
    }


def _answers_to(question: Question) -> Sequence[str]:
    """Return the answers that may be given to several questions at once by choosing one."""
    match question.kind:
        case "confirm":
            return () if question.is_guard else ("yes", "no")
        case "checkbox":
            return ()
        case _:
            return question.options
