"""Lists of runs that people have given a name, each person's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.store.keys import views_key

if TYPE_CHECKING:
    import redis

MOST_VIEWS: Final = 50


class SavedViews:
    """Names of lists, with the queries that they stand for."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def of(self, user: str) -> dict[str, str]:
        """Return a person's views: name to query, by name."""
        return dict(sorted(self._redis.hgetall(views_key(user)).items()))

    def save(self, user: str, name: str, query: str) -> None:
        """Give a list a name; another one of that name is replaced.

        Raises:
            ActionRefused: the person has too many.
        """
        known = self.of(user)
        if name not in known and len(known) >= MOST_VIEWS:
            raise ActionRefused(f"there are {MOST_VIEWS} views already; remove one of them")
        self._redis.hset(views_key(user), name, query)

    def forget(self, user: str, name: str) -> None:
        """Remove a view, if there is one of that name."""
        self._redis.hdel(views_key(user), name)
