"""Answer links, found by the SHA-256 of their tokens, which are stored nowhere."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.runs.inbound.answer_links import MOST_LINKS, AnswerLink
from sleipnir.scheduler.store.keys import answer_link_key, answer_links_key
from sleipnir.scheduler.store.transitions import Scripts


class AnswerLinks:
    """One link for each question and recipient, until it expires.

    Which one it is, the links of the question say; what a token opens is stored beside them.
    """

    def __init__(self, store: Scripts) -> None:
        self._store = store
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client

    def put(self, digest: str, link: AnswerLink, for_ms: int) -> None:
        """Store a link; the recipient's earlier one to that question opens nothing any more.

        Raises:
            ActionRefused: the question has too many recipients, or this link was revoked.
        """
        made = self._store.transition("put_answer_link")(
            answer_links_key(link.question_id), link.recipient, digest, MOST_LINKS, for_ms
        )
        if made.problem == "full":
            raise ActionRefused(f"question {link.question_id} has {MOST_LINKS} links already")
        if made.problem == "revoked":
            raise ActionRefused(f"the link for '{link.recipient}' was revoked")
        self._redis.set(answer_link_key(digest), encode(asdict(link)), px=for_ms)
        if made.earlier not in ("", digest):
            self._redis.delete(answer_link_key(made.earlier))

    def revoke(self, question_id: str, recipient: str) -> bool:
        """Have the recipient's link open nothing any more; return False if there is none.

        The same one cannot be made again, as a delivery that is repeated would; another one can.
        """
        key = answer_links_key(question_id)
        digest = self._store.transition("revoke_answer_link")(key, recipient).digest
        if digest:
            self._redis.delete(answer_link_key(digest))
        return bool(digest)

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
        # Two that were made at once may both be stored; the later one is the recipient's.
        newest = self._redis.hget(answer_links_key(link.question_id), link.recipient)
        return link if newest == digest else None
