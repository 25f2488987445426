"""Answer links, found by the SHA-256 of their tokens, which are stored nowhere."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.runs.inbound.answer_links import MOST_LINKS, AnswerLink
from sleipnir.scheduler.store.keys import answer_link_key, answer_links_key

_REVOKED: Final = "revoked "

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
            ActionRefused: the question has too many recipients, or this link was revoked.
        """
        of_question = answer_links_key(link.question_id)
        known: dict[str, str] = self._redis.hgetall(of_question)
        if link.recipient not in known and len(known) >= MOST_LINKS:
            raise ActionRefused(f"question {link.question_id} has {MOST_LINKS} links already")
        if known.get(link.recipient) == _revoked(digest):
            raise ActionRefused(f"the link for '{link.recipient}' was revoked")
        earlier = known.get(link.recipient, digest)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(answer_link_key(digest), encode(asdict(link)), px=for_ms)
            pipe.hset(of_question, link.recipient, digest)
            pipe.pexpire(of_question, for_ms)
            if earlier != digest:
                pipe.delete(answer_link_key(earlier))
            pipe.execute()

    def revoke(self, question_id: str, recipient: str) -> bool:
        """Have the recipient's link open nothing any more; return False if there is none.

        The same one cannot be made again, as a delivery that is repeated would; another one can.
        """
        of_question = answer_links_key(question_id)
        digest = self._redis.hget(of_question, recipient)
        if digest is None or digest.startswith(_REVOKED):
            return False
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.delete(answer_link_key(digest))
            pipe.hset(of_question, recipient, _revoked(digest))
            return bool(pipe.execute()[0])

    def of_question(self, question_id: str) -> list[tuple[AnswerLink, int]]:
        """Return the links of a question that are good, by recipient, each with the ms it has."""
        known = sorted(self._redis.hgetall(answer_links_key(question_id)).items())
        with self._redis.pipeline(transaction=False) as pipe:
            for _, digest in known:
                pipe.get(answer_link_key(digest))
                pipe.pttl(answer_link_key(digest))
            found = pipe.execute()
        return [
            (AnswerLink(**json.loads(text)), left_ms)
            for text, left_ms in zip(found[::2], found[1::2], strict=True)
            if text is not None and left_ms > 0
        ]

    def find(self, digest: str) -> AnswerLink | None:
        """Return the link whose token has this digest; None if there is none, or no longer."""
        text = self._redis.get(answer_link_key(digest))
        if text is None:
            return None
        link = AnswerLink(**json.loads(text))
        # Two that were made at once are both stored; the later one is the recipient's.
        newest = self._redis.hget(answer_links_key(link.question_id), link.recipient)
        return link if newest == digest else None


def _revoked(digest: str) -> str:
    """Return what is stored instead of a digest; no token has it."""
    return f"{_REVOKED}{digest}"
