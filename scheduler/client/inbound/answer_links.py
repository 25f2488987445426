"""Makes, lists and revokes links with which somebody without an account answers one question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.runs.inbound.answer_links import (
    AnswerLink,
    digest_of,
    kept_ms,
    new_token,
    public_url,
    require_recipient,
)
from sleipnir.scheduler.store.people.answer_links import AnswerLinks

if TYPE_CHECKING:
    from sleipnir.scheduler.client.client import Client
    from sleipnir.scheduler.runs.model import Question


@dataclass(frozen=True, slots=True)
class KnownAnswerLink:
    """A link that is good; what it is opened with is stored nowhere."""

    question_id: str
    recipient: str
    expires_at: int  # ms


@dataclass(frozen=True, slots=True)
class NewAnswerLink:
    """A link, which is shown this once."""

    url: str
    expires_at: int  # ms


def make_answer_link(
    client: Client, question: Question, recipient: str, token: str | None = None
) -> NewAnswerLink:
    """Make a link to an open question; an earlier one for the same recipient is given up.

    Args:
        recipient: who answers, as the run's events and the audit log will say.
        token: of 256 bits that nobody can guess; the same one makes the same link again.

    Raises:
        ActionRefused: there may be no links, none to this question, or no more; or the one of this
            token was revoked.
        SettingInvalid: `monitor_public_url` is not set.
        SubmissionRefused: the recipient is not one that can be shown.
    """
    settings = client.store.settings
    site = public_url(settings.monitor_public_url, question, is_allowed=settings.answer_links)
    token = token or new_token()
    link = AnswerLink(question.question_id, question.asked_at, require_recipient(recipient))
    now_ms = client.queries.now_ms()
    for_ms = kept_ms(question, client.queries.run(question.run_id).deadline, now_ms)
    AnswerLinks(client.store).put(digest_of(token), link, for_ms)
    return NewAnswerLink(f"{site}/a/{token}", now_ms + for_ms)


def links_to(client: Client, question: Question) -> list[KnownAnswerLink]:
    """Return the links with which an open question can be answered, by recipient."""
    if not client.store.settings.answer_links:
        return []
    now_ms = client.queries.now_ms()
    return [
        KnownAnswerLink(link.question_id, link.recipient, now_ms + left_ms)
        for link, left_ms in AnswerLinks(client.store).of_question(question.question_id)
        if link.asked_at == question.asked_at
    ]


def revoke_answer_link(client: Client, question: Question, recipient: str) -> None:
    """Have a link open nothing any more.

    Raises:
        ActionRefused: the recipient has none to this question.
    """
    if not AnswerLinks(client.store).revoke(question.question_id, recipient.strip()):
        raise ActionRefused(
            f"'{cut(printable(recipient), 80)}' has no link to question {question.question_id}; "
            f"`sleipnir answer-link {question.run_id}` lists those there are"
        )
