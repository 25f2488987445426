"""The client on asyncio: what its twin does, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from sleipnir import AsyncClient, Client, Request
from sleipnir.errors import (
    AnswerRefused,
    BadCursor,
    EngineUnreachable,
    RunNotFound,
    SleipnirError,
    StillRunning,
    SubmissionRefused,
)
from sleipnir.scheduler.client.async_parts import AsyncHooks, AsyncSchedules, AsyncTriggers
from sleipnir.scheduler.client.hooks.hooks import HookClient
from sleipnir.scheduler.client.inbound.triggers import TriggerClient
from sleipnir.scheduler.client.schedules.schedules import ScheduleClient
from tests.support.engine import Engine
from tests.support.hooks import hook_key
from tests.support.on_asyncio import run_in_thread
from tests.support.redis_server import RedisServer

T = TypeVar("T")

ECHO = 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'
ASK = """
    start: review
    nodes:
      review:
        type: approval
        question: Publish?
        options: [publish, drop]
        routes: {publish: done, drop: dropped}
        on_other: dropped
      done: {type: end, output: published}
      dropped: {type: end, output: dropped}
"""


@pytest.fixture
def connected(engine: Engine, redis_server: RedisServer) -> Engine:
    """An engine whose Redis other clients can find."""
    engine.configure(redis_url=redis_server.url)
    engine.write("echo", ECHO)
    engine.write("ask", ASK)
    return engine


def on_asyncio(engine: Engine, talk: Callable[[AsyncClient], Awaitable[T]]) -> T:
    """What a program with a client comes to."""

    async def program() -> T:
        async with AsyncClient.over(engine.client) as client:
            return await talk(client)

    return run_in_thread(program())


def test_a_run_is_followed_to_its_end_and_from_any_event_on(connected: Engine) -> None:
    async def talk(client: AsyncClient) -> None:
        run_id = await client.submit("echo", Request(prompt="Ada"))
        following = client.events(run_id)
        first = await anext(following)
        waiting = asyncio.create_task(client.wait(run_id))
        await asyncio.to_thread(connected.drive)
        rest = [entry async for entry in following]

        assert (first.event.kind, rest[-1].event.kind) == ("submitted", "ended")
        assert [entry async for entry in client.events(run_id, first.event_id)] == rest
        assert [entry async for entry in client.events(run_id, rest[-1].event_id)] == []
        assert (await waiting).output == (await client.run(run_id)).output == "Ada"
        assert (await client.state(run_id))["initial_prompt"] == "Ada"
        assert (await client.state(run_id, 0))["initial_prompt"] == "Ada"

    on_asyncio(connected, talk)


def test_many_runs_are_submitted_and_awaited_at_once(connected: Engine) -> None:
    async def talk(client: AsyncClient) -> None:
        await client.submit("echo")
        # Redis forgets its scripts when it restarts.
        connected.redis.script_flush()
        requests = [Request(prompt=str(n)) for n in range(350)]
        run_ids = await client.submit_many("echo", requests)
        # More than may wait at once.
        waiting = [asyncio.create_task(client.wait(run_id)) for run_id in run_ids]
        await asyncio.to_thread(connected.drive)

        assert [run.output for run in await asyncio.gather(*waiting)] == [
            str(n) for n in range(350)
        ]

    on_asyncio(connected, talk)


def test_a_question_is_answered_once(connected: Engine) -> None:
    async def talk(client: AsyncClient) -> None:
        run_id = await client.submit("ask")
        with pytest.raises(AnswerRefused, match="no open question"):
            await client.answer(run_id, "publish")
        await asyncio.to_thread(connected.drive)

        (question,) = await client.open_questions(run_id)
        assert (await client.answer(run_id, "publish")) == question
        with pytest.raises(AnswerRefused, match="already answered"):
            await client.answer(run_id, "drop", "review")
        await asyncio.to_thread(connected.drive)
        assert (await client.wait(run_id)).output == "published"

    on_asyncio(connected, talk)


def test_reruns_are_there_too(connected: Engine) -> None:
    async def talk(client: AsyncClient) -> None:
        run_id = await client.submit("ask", Request(prompt="old"))
        assert await client.cancel(run_id)
        assert not await client.cancel(run_id)

        assert (await client.retry(run_id)).tries == 2
        fork = await client.fork(run_id, 0, prompt="new")
        difference = await client.diff(run_id, fork.run_id)
        assert difference.changed["initial_prompt"].to_json() == {"a": "old", "b": "new"}

    on_asyncio(connected, talk)


def public(part: type) -> set[str]:
    return {name for name in vars(part) if not name.startswith("_")}


def test_what_has_a_name_is_there_too(
    connected: Engine, redis_server: RedisServer, tmp_path: Path
) -> None:
    connected.configure(redis_url=redis_server.url, hook_key_file=hook_key(tmp_path))

    async def talk(client: AsyncClient) -> None:
        await client.schedules.create("news", {"agent": "echo", "every": "1h", "prompt": "Ada"})
        run_id = await client.schedules.trigger("news")
        await client.hooks.create("ops", {"url": "https://ops.example"})
        await client.triggers.create("orders", {"agent": "echo"})
        await asyncio.to_thread(connected.drive)

        assert (await client.wait(run_id)).output == "Ada"
        parts = client.schedules, client.hooks, client.triggers
        for part, name in zip(parts, ("news", "ops", "orders"), strict=True):
            assert [each.name for each in await part.list()] == [name]
            await part.delete(name)
            with pytest.raises(SleipnirError, match=f"'{name}'"):
                await part.get(name)

    on_asyncio(connected, talk)
    connected.redis.flushall()


@pytest.mark.parametrize(
    ("part", "twin"),
    [(ScheduleClient, AsyncSchedules), (HookClient, AsyncHooks), (TriggerClient, AsyncTriggers)],
)
def test_no_method_of_a_part_is_missing(part: type, twin: type) -> None:
    assert public(twin) == public(part)


def test_what_is_wrong_is_said_by_the_errors_of_the_twin(connected: Engine) -> None:
    async def talk(client: AsyncClient) -> None:
        run_id = await client.submit("echo")
        with pytest.raises(StillRunning):
            await client.wait(run_id, timeout_s=0.1)
        for unknown in ("0123456789abcdef", "no id", ""):
            with pytest.raises(RunNotFound):
                await client.wait(unknown)
            with pytest.raises(RunNotFound):
                await client.cancel(unknown)
            with pytest.raises(RunNotFound):
                await client.state(unknown)
        with pytest.raises(BadCursor):
            await anext(client.events(run_id, after="yesterday"))
        with pytest.raises(SubmissionRefused):
            await client.submit("echo", Request(answers={"done": ["yes"]}))
        with pytest.raises(SleipnirError, match="no agent named"):
            await client.submit("nobody")

    on_asyncio(connected, talk)


def test_a_redis_that_is_gone_is_one_of_our_errors(tmp_path: Path) -> None:
    agent = tmp_path / "agents" / "echo"
    agent.mkdir(parents=True)
    (agent / "graph.yaml").write_text(f"name: echo\n{ECHO}")

    async def talk(client: AsyncClient, server: RedisServer) -> None:
        echo = await client.prepare(str(agent))
        run_id = await client.submit(echo)
        server.kill()
        with pytest.raises(EngineUnreachable):
            await client.submit(echo)
        with pytest.raises(EngineUnreachable):
            await client.run(run_id)
        with pytest.raises(EngineUnreachable):
            await client.retry(run_id)

    async def program(server: RedisServer) -> None:
        async with AsyncClient(server.url) as client:
            await talk(client, server)

    with RedisServer(tmp_path / "redis") as server:
        run_in_thread(program(server))


def test_threads_learn_of_it_in_the_same_way(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server, Client(server.url) as client:
        with pytest.raises(RunNotFound):
            client.wait("0123456789abcdef")
        server.kill()
        with pytest.raises(EngineUnreachable, match="cannot serve requests now"):
            client.run("0123456789abcdef")
        with pytest.raises(EngineUnreachable):
            client.cancel("0123456789abcdef")
        with pytest.raises(EngineUnreachable):
            Client(server.url)
