"""Links with which somebody without an account answers one question."""

from __future__ import annotations

import secrets
from hashlib import sha256
from typing import Final, Literal, TypeAlias, get_args

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import ActionRefused, SettingInvalid, SubmissionRefused
from sleipnir.scheduler.runs.model import Question

MOST_LINKS: Final = 100  # of one question
MOST_RECIPIENT: Final = 128  # characters
# What becomes of a request with a link: it answers, or opens nothing.
LinkOutcome: TypeAlias = Literal["answered", "wrong"]
LINK_OUTCOMES: Final[tuple[LinkOutcome, ...]] = get_args(LinkOutcome)
_LONGEST_MS: Final = 7 * 86_400_000
_SHORTEST_MS: Final = 1_000
_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class AnswerLink:
    """What a link answers, and for whom it was made."""

    question_id: str
    asked_at: int  # ms; after a retry, a question of the same id is another one
    recipient: str


def new_token() -> str:
    """Return what a link is opened with: 256 random bits."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def digest_of(token: str) -> str:
    """Return what is stored of a token."""
    return sha256(token.encode()).hexdigest()


def kept_ms(question: Question, deadline: int | None, now_ms: int) -> int:
    """Return how long a link is good: as long as its question, and at most a week.

    Args:
        deadline: of the question's run, ms; None: it has none.
    """
    ends = [now_ms + _LONGEST_MS]
    if question.allowed_s is not None:
        ends.append(question.asked_at + int(1000 * question.allowed_s))
    if deadline is not None:
        ends.append(deadline)
    return max(_SHORTEST_MS, min(ends) - now_ms)


def require_recipient(text: str) -> str:
    """Return for whom a link is made, as the audit log and the run's events will say it.

    Raises:
        SubmissionRefused: it is empty, too long, or more than one line.
    """
    recipient = text.strip()
    if not 0 < len(recipient) <= MOST_RECIPIENT or not recipient.isprintable():
        raise SubmissionRefused(
            f"who a link is for is said in one line of 1 to {MOST_RECIPIENT} characters, such as "
            "ann@example.com"
        )
    return recipient


def public_url(url: str | None, question: Question, *, is_allowed: bool) -> str:
    """Return where links to a question begin.

    Args:
        url: the setting `monitor_public_url`.
        is_allowed: the setting `answer_links`.

    Raises:
        ActionRefused: there may be no links, or none to this question.
        SettingInvalid: it is not known how people reach the monitor.
    """
    if not is_allowed:
        raise ActionRefused("answer links are turned off: the setting answer_links is false")
    if not question.may_be_linked:
        raise ActionRefused(
            f"node '{question.node}' of agent '{question.agent}' accepts no answers by links: its "
            "`answer_link` is false"
        )
    if url is None:
        raise SettingInvalid(
            "monitor_public_url is not set: name the address at which people reach the monitor, "
            "such as https://runs.example"
        )
    return url.rstrip("/")
