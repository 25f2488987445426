"""The Python client on asyncio: the same engine and methods, awaited.

Reads and transitions are awaited on `redis.asyncio`, so that thousands of runs can be followed at
once. File access and computation (preparing agents, reruns, syncing the embedded engine to
disk) run in threads, on the synchronous client that this one wraps.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import StillRunning, TransitionRefused
from sleipnir.scheduler.runs.answers import (
    accepted,
    chosen,
    none_open,
    require_named,
    run_of_question,
    with_id,
)
from sleipnir.scheduler.runs.events import NarrationEntry, QuestionAnswered
from sleipnir.scheduler.runs.model import Failure, Question, Run
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.clients.aio import AsyncStore
from sleipnir.scheduler.store.parking import refusing_answers
from sleipnir.scheduler.store.queries.histories import state_of
from sleipnir.scheduler.store.queries.narration import News, newest_of, news_of
from sleipnir.scheduler.store.queries.questions import questions_of, questions_of_tree
from sleipnir.scheduler.store.queries.records import run_of

with lazy_imports():
    from sleipnir.scheduler.client import async_parts

P = ParamSpec("P")
T = TypeVar("T")

# How long one blocking read of news waits; less when others are queued.
_LOOK_MS = 5_000
_SHORTEST_LOOK_MS = 20


def _in_thread(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return the method as a coroutine that runs it in a thread."""

    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        client, _ = await self._opened()
        return await asyncio.to_thread(method, client, *args, **kwargs)

    return functools.update_wrapper(call, method)


class AsyncClient:
    """`Client` on asyncio; opened by `async with` or by its first use.

        async with AsyncClient() as client:
            run_id = await client.submit("welcome", Request(prompt="Ada"))
            async for entry in client.events(run_id):
                print(entry.event)

    It belongs to the event loop of its first use. Arguments and errors are those of `Client`.
    """

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        agents_dir: Sequence[str | Path] = (),
        workers: bool = True,
    ) -> None:
        self._open: Callable[[], Client] = functools.partial(
            Client, redis_url, agents_dir=agents_dir, workers=workers
        )
        self._opening = asyncio.Lock()
        self._parts: tuple[Client, AsyncStore] | None = None

    @classmethod
    def over(cls, client: Client) -> Self:
        """Return an async client over an existing client, which it closes with itself."""
        twin = cls()
        twin._open = lambda: client
        return twin

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the engine; an embedded one stops if nobody else uses it."""
        if self._parts is not None:
            (client, store), self._parts = self._parts, None
            await store.close()
            await asyncio.to_thread(client.close)

    async def _opened(self) -> tuple[Client, AsyncStore]:
        async with self._opening:
            if self._parts is None:
                client = await asyncio.to_thread(self._open)
                redis_url = client.store.settings.redis_url
                assert redis_url is not None
                self._parts = client, AsyncStore(client.store, redis_url, client.store.archived)
            return self._parts

    # ---- submit

    prepare = _in_thread(Client.prepare)

    async def submit(self, agent: str | PreparedAgent, request: Request | None = None) -> str:
        """Accept a run and return its id, as `Client.submit` does."""
        (run_id,) = await self.submit_many(agent, [request or Request()])
        return run_id

    async def submit_many(
        self, agent: str | PreparedAgent, requests: Iterable[Request]
    ) -> list[str]:
        """Accept runs of one agent, many per round trip; return their ids in the same order.

        Raises:
            SubmissionRefused: nothing was stored.
            AgentNotFound, InvalidAgent, BundleError, NotKept: as `Client.submit`.
        """
        client, store = await self._opened()
        prepared = await self.prepare(agent) if isinstance(agent, str) else agent
        requests = list(requests)
        if any(client.session_for(prepared, request) for request in requests):
            return await asyncio.to_thread(client.submit_many, prepared, requests)
        runs = [client.new_run(prepared, request) for request in requests]
        for batch, webhook in {(run.batch, run.webhook) for run in runs}:
            if batch is not None and webhook is not None:
                await asyncio.to_thread(client.store.batches.note_webhook, batch, webhook)
            await asyncio.to_thread(client.budget_check.require_budget, batch)
        submissions = [(run.run_id, *client.store.runs.to_submit(run)) for run in runs]
        await store.call_many("submit_run", submissions)
        run_ids = [run.run_id for run in runs]
        if client.acceptances is not None:
            await asyncio.to_thread(client.keep, run_ids)
        return run_ids

    # ---- look

    async def run(self, run_id: str) -> Run:
        """Return a run as it is now, as `Client.run` does."""
        _, store = await self._opened()
        return await store.read(run_of(run_id))

    async def state(self, run_id: str, step: int | None = None) -> dict[str, Any]:
        """Return the state as last committed, or after a step, as `Client.state` does."""
        client, store = await self._opened()
        if step is not None:
            return await asyncio.to_thread(client.state, run_id, step)
        await store.read(run_of(run_id))
        return await store.read(state_of(run_id))

    async def events(self, run_id: str, after: str = "0") -> AsyncIterator[NarrationEntry]:
        """Yield the events of a run until its end, as `Client.events` does."""
        is_open = False
        while True:
            news = await self._news(run_id, after, is_open)
            for entry in news.entries:
                yield entry
            if news.ended is not None:
                return
            is_open = news.is_open
            after = news.entries[-1].event_id if news.entries else after

    async def wait(self, run_id: str, timeout_s: float | None = None) -> Run:
        """Wait until the run has ended, as `Client.wait` does."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ended(run_id)
        except TimeoutError as error:
            raise StillRunning(run_id, timeout_s or 0.0) from error

    async def _ended(self, run_id: str) -> Run:
        _, store = await self._opened()
        await store.read(run_of(run_id))
        newest = await store.read(newest_of(run_id))
        after = "0" if newest is None else newest.event_id
        is_open = False
        while True:
            news = await self._news(run_id, after, is_open)
            if news.ended is not None:
                return news.ended
            is_open = news.is_open
            after = news.entries[-1].event_id if news.entries else after

    async def _news(self, run_id: str, after: str, is_open: bool) -> News:
        _, store = await self._opened()
        wait_ms = max(_SHORTEST_LOOK_MS, int(_LOOK_MS / max(1.0, store.crowd)))
        return await store.look(news_of(run_id, after, wait_ms, is_open=is_open))

    async def open_question(
        self, run_id: str, node: str | None = None, *, question_id: str | None = None
    ) -> Question:
        """Return the open question of a run or its children, as `Client.open_question` does."""
        if question_id is not None:
            _, store = await self._opened()
            asked = await store.read(questions_of(run_of_question(question_id)))
            return with_id(run_id, asked, question_id)
        question = chosen(run_id, await self.open_questions(run_id), node)
        if question is None:
            raise none_open(await self.run(run_id), node)
        return question

    async def open_questions(self, run_id: str) -> list[Question]:
        """Return a run's open questions, or else those of its child runs at any depth."""
        _, store = await self._opened()
        await store.read(run_of(run_id))
        return await store.read(questions_of(run_id)) or await store.read(questions_of_tree(run_id))

    # ---- steer

    async def answer(
        self, run_id: str, text: str, node: str | None = None, *, question_id: str | None = None
    ) -> Question:
        """Answer the open question of a run or its children, as `Client.answer` does."""
        client, store = await self._opened()
        question = await self.open_question(run_id, node, question_id=question_id)
        require_named(question, question_id)
        text = accepted(question, text, client.store.settings.value_limit_bytes)
        given = client.store.parking.to_answer(
            question.run_id,
            question.visit,
            text,
            QuestionAnswered(question.node),
            question.call,
        )
        with refusing_answers(question.run_id):
            await store.call("close_wait", *given)
        return question

    async def cancel(self, run_id: str, reason: str = "cancelled by its user") -> bool:
        """Cancel a run with its children; return False if it had ended."""
        client, store = await self._opened()
        await store.read(run_of(run_id))
        failure = Failure("cancelled", reason, None)
        try:
            await store.call("close_run", *client.store.runs.to_close(run_id, "cancelled", failure))
        except TransitionRefused:
            return False
        return True

    # ---- what stands beside runs, and has a name

    @functools.cached_property
    def schedules(self) -> async_parts.AsyncSchedules:
        """Schedules, as `Client.schedules` has them."""
        return async_parts.AsyncSchedules(self._part(lambda client: client.schedules))

    @functools.cached_property
    def hooks(self) -> async_parts.AsyncHooks:
        """Hooks, as `Client.hooks` has them."""
        return async_parts.AsyncHooks(self._part(lambda client: client.hooks))

    @functools.cached_property
    def triggers(self) -> async_parts.AsyncTriggers:
        """Triggers, as `Client.triggers` has them."""
        return async_parts.AsyncTriggers(self._part(lambda client: client.triggers))

    def _part(self, of: Callable[[Client], T]) -> Callable[[], Coroutine[Any, Any, T]]:
        async def opened() -> T:
            client, _ = await self._opened()
            return of(client)

        return opened

    # ---- reruns and costs

    fork = _in_thread(Client.fork)
    retry = _in_thread(Client.retry)
    diff = _in_thread(Client.diff)
    spend = _in_thread(Client.spend)
    ended = _in_thread(Client.ended)
