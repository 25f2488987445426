"""The engine as those see it who serve its agents; nothing of a run is kept here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.clients.aio import AsyncStore
from sleipnir.scheduler.views.text.masked import Masks
from sleipnir.worker.monitor.serving.agents import ServedAgents
from sleipnir.worker.monitor.serving.following import RunFollower

P = ParamSpec("P")
T = TypeVar("T")


class ServedEngine:
    """The agents that are served, and their runs.

    Args:
        redis_url: of the engine, to follow runs.
        patterns: of the names of agents.
    """

    def __init__(self, client: Client, redis_url: str, patterns: Sequence[str]) -> None:
        self.client = client
        self.agents = ServedAgents(client.search, patterns)
        self.masks = Masks(client)
        self._store = AsyncStore(client.store, redis_url)

    def follower(self, run_id: str) -> RunFollower:
        """Return what follows a run from its beginning."""
        return RunFollower(self._store, run_id)

    def text_of(self, question: Question) -> str:
        """Return a question as people read it: with the call that it is about, and its options."""
        call = question.guarded_call
        parts = [question.text, *([] if call is None else [call.to_text()])]
        if question.options:
            parts.append("\n".join(f"- {option}" for option in question.options))
        return self.masks.masked("\n\n".join(parts), self.client.run(question.run_id))

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads Redis or files, on a thread."""
        return await asyncio.to_thread(function, *args, **kwargs)

    async def close(self) -> None:
        """Close the connections that follow runs."""
        await self._store.close()
