"""What all handlers share that serve agents; nothing of a run is kept here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.store.clients.aio import AsyncStore
from sleipnir.worker.monitor.problems import Problem, Refused
from sleipnir.worker.monitor.serving.agents import ServedAgents
from sleipnir.worker.monitor.serving.following import RunFollower

# Requests that wait for runs at once; each takes a connection to Redis.
MOST_WAITING = 200
_AGAIN_S = 5


class Serving:
    """The agents that are served, and the requests that wait for their runs."""

    def __init__(self, client: Client, redis_url: str) -> None:
        self.settings = client.store.settings.serve
        self.agents = ServedAgents(client)
        self._store = AsyncStore(client.store, redis_url)
        self.waiting = 0  # requests

    def follower(self, run_id: str) -> RunFollower:
        """Return what follows a run from its beginning."""
        return RunFollower(self._store, run_id)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take the place of a request that waits.

        Raises:
            Refused: all are taken.
        """
        if self.waiting >= MOST_WAITING:
            message = f"{MOST_WAITING} requests already wait for runs here"
            details = {"retry_after_s": _AGAIN_S}
            raise Refused(Problem(429, "rate", message, details=details))
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def close(self) -> None:
        """Close the connections."""
        await self._store.close()
