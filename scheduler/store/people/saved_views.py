"""Lists of runs that people have given a name, each person's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from sleipnir.scheduler.errors import ActionRefused, ViewInvalid
from sleipnir.scheduler.store.keys import views_key

if TYPE_CHECKING:
    import redis

MOST_VIEWS: Final = 50
MOST_NAME: Final = 60  # characters
MOST_QUERY: Final = 2_000  # characters
CONDITIONS: Final = (
    "status",
    "agent",
    "batch",
    "label",
    "since",
    "until",
    "children",
    "q",
    "cause",
    "cost",
    "took",
    "order",
)
# How a page shows them: the columns, and by which of them it is ordered.
_LOOKS: Final = ("cols", "sort")
_PLACE: Final = ("cursor", "limit")


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
            ViewInvalid: the name is empty or too long, or the query is no list's.
            ActionRefused: the person has too many.
        """
        if not 0 < len(name) <= MOST_NAME:
            raise ViewInvalid(f"the name of a view has 1 to {MOST_NAME} characters")
        stored = query_of(query)
        known = self.of(user)
        if name not in known and len(known) >= MOST_VIEWS:
            raise ActionRefused(f"there are {MOST_VIEWS} views already; remove one of them")
        self._redis.hset(views_key(user), name, stored)

    def forget(self, user: str, name: str) -> bool:
        """Remove a view; return whether there was one of that name."""
        return bool(self._redis.hdel(views_key(user), name))


def query_of(text: str) -> str:
    """Return a list's query in the form in which it is stored: without its place in the list.

    Raises:
        ViewInvalid: it is too long, or has parameters that lists of runs do not have.
    """
    if len(text) > MOST_QUERY:
        raise ViewInvalid(f"the conditions of a view have at most {MOST_QUERY:,} characters")
    pairs = [pair for pair in parse_qsl(text) if pair[0] not in _PLACE]
    for name, _ in pairs:
        if name not in CONDITIONS and name not in _LOOKS:
            raise ViewInvalid(f"'{name}' is not a parameter of lists of runs")
    return urlencode(pairs)
