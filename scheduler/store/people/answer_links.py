"""Answer links, found by the SHA-256 of their tokens, which are stored nowhere."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.runs.inbound.answer_links import MOST_LINKS, AnswerLink
from sleipnir.scheduler.store.keys import answer_link_key, answer_links_key

if TYPE_CHECKING:
    import redis


class AnswerLinks:
    """One link for each question and recipient, until it expires."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def put(self, digest: str, link: AnswerLink, for_ms: int) -> None:
        """Store a link; the recipient's earlier one to that question opens nothing any more.

        Raises:
            ActionRefused: the question has too many recipients.
        """
        of_question = answer_links_key(link.question_id)
        known: dict[str, str] = self._redis.hgetall(of_question)
        if link.recipient not in known and len(known) >= MOST_LINKS:
            raise ActionRefused(f"question {link.question_id} has {MOST_LINKS} links already")
        earlier = known.get(link.recipient, digest)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(answer_link_key(digest), encode(asdict(link)), px=for_ms)
            pipe.hset(of_question, link.recipient, digest)
            pipe.pexpire(of_question, for_ms)
            if earlier != digest:
                pipe.delete(answer_link_key(earlier))
            pipe.execute()

    def find(self, digest: str) -> AnswerLink | None:
        """Return the link whose token has this digest; None if there is none, or no longer."""
        text = self._redis.get(answer_link_key(digest))
        if text is None:
            return None
        link = AnswerLink(**json.loads(text))
        # Two that were made at once are both stored; the later one is the recipient's.
        newest = self._redis.hget(answer_links_key(link.question_id), link.recipient)
        return link if newest == digest else None
