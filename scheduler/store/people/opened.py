"""Which open questions a person has opened: the others come first in their inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sleipnir.scheduler.store.keys import opened_key

if TYPE_CHECKING:
    import redis

MOST_OPENED: Final = 10_000
KEPT_S: Final = 90 * 86_400


class OpenedQuestions:
    """Ids of questions by person: the latest, until somebody opens none for 90 days."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def note(self, user: str, question_id: str, now_ms: int) -> None:
        """Remember that a person has opened a question; may be called again."""
        key = opened_key(user)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(key, {question_id: now_ms})
            pipe.zremrangebyrank(key, 0, -MOST_OPENED - 1)
            pipe.expire(key, KEPT_S)
            pipe.execute()
