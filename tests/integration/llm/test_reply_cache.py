"""Replies of models that are kept: who is given them, for how long, and who is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.runs.events import ModelCalled
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.scheduler.store.cached_replies import CachedReplies
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import ModelRequest, Reply
from sleipnir.worker.llm.recording.cache import USUAL_S, ReplyCache, kept_for_s
from tests.support.engine import Clock, Engine
from tests.support.model_server import ModelServer, fails, says
from tests.support.model_server import Reply as ServerReply

GRAPH = """
model: openai:m
{top}
start: ask
nodes:
  ask: {{type: llm, prompt: "{prompt}", next: done, max_attempts: 2, {node}
        state_updates: {{said: "{{{{output}}}}"}}}}
  done: {{type: end, output: "{{{{said}}}}"}}
"""


def graph(node: str = "", top: str = "", prompt: str = "Say hello.") -> str:
    return GRAPH.format(node=node and f"{node},", top=top, prompt=prompt)


def test_an_equal_request_of_another_run_costs_nothing(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("hello"))
    first = engine.finish(graph("cache: true"))

    second = engine.finish(graph("cache: true"))

    assert (first.output, second.output) == ("hello", "hello")
    assert len(server.requests) == 1
    assert (first.usage.prompt_tokens, second.usage) == (10, Usage())
    assert narrated(engine, second.run_id) == ["cached"]


def narrated(engine: Engine, run_id: str) -> list[str | None]:
    """Where the replies of a run came from, if from no model."""
    return [event.source for event in engine.events(run_id, ModelCalled)]


def test_another_worker_has_the_same_replies(
    engine: Engine, redis_client: redis.Redis, server: ModelServer, tmp_path: Path
) -> None:
    server.script.add(says("hello"))
    engine.finish(graph("cache: true"))
    other = Engine(redis_client, Clock(), tmp_path / "other")

    run = other.finish(graph("cache: true"))

    assert (run.output, len(server.requests)) == ("hello", 1)


@pytest.mark.parametrize(
    ("node", "top", "asked"),
    [
        ("cache: true", "", 1),
        ("cache: 60", "", 1),
        ("", "cache: true", 1),
        ("cache: true", "cache: false", 1),
        ("", "", 2),
        ("cache: false", "", 2),
        ("cache: false", "cache: true", 2),
    ],
)
def test_a_node_has_its_own_mind_or_else_that_of_the_graph(
    engine: Engine, server: ModelServer, node: str, top: str, asked: int
) -> None:
    server.script.add(says("hello"), says("hello"))

    engine.finish(graph(node, top))
    engine.finish(graph(node, top))

    assert len(server.requests) == asked


@pytest.mark.parametrize("other", ["temperature: 0.5", "top_p: 0.1", "model: 'openai:n'"])
def test_a_request_with_other_settings_is_another(
    engine: Engine, server: ModelServer, other: str
) -> None:
    server.script.add(says("hello"), says("goodbye"))
    engine.finish(graph("cache: true"))

    run = engine.finish(graph(f"cache: true, {other}"))

    assert run.output == "goodbye"


def test_a_reply_is_kept_as_long_as_its_node_says(
    engine: Engine, redis_client: redis.Redis, server: ModelServer
) -> None:
    server.script.add(says("hello"))

    engine.finish(graph("cache: 60"))

    (key,) = redis_client.scan_iter("sleipnir:cache:*")
    assert 55_000 < redis_client.pttl(key) <= 60_000


@pytest.mark.parametrize(
    ("wishes", "seconds"),
    [
        ((None, None), None),
        ((True, None), USUAL_S),
        ((None, 5.0), 5.0),
        ((False, 5.0), None),
        ((7.0, False), 7.0),
    ],
)
def test_the_first_wish_counts(
    wishes: tuple[bool | float | None, ...], seconds: float | None
) -> None:
    assert kept_for_s(*wishes) == seconds


@pytest.mark.parametrize("bad", [says("  "), fails(500, "down")])
def test_blank_replies_and_failures_are_not_kept(
    engine: Engine, redis_client: redis.Redis, server: ModelServer, bad: ServerReply
) -> None:
    server.when("hello", bad)

    engine.finish(graph("cache: true"))

    assert list(redis_client.scan_iter("sleipnir:cache:*")) == []


def test_a_second_attempt_asks_anew_and_what_it_gets_is_kept(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says(" "), says("hello"))
    run_id = engine.submit(graph("cache: true"))
    engine.drive()
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    later = engine.finish(graph("cache: true"))

    assert engine.run(run_id).output == "hello"
    assert (later.output, len(server.requests)) == ("hello", 2)


def test_only_a_first_attempt_is_given_what_is_kept(redis_client: redis.Redis) -> None:
    replies = CachedReplies(redis_client, RedisClock(redis_client))
    cache = ReplyCache(replies, lambda _run_id, _visit: False)
    request = ModelRequest("openai:m", [{"role": "user", "content": "hello?"}])
    caller = Caller("r", "r", None, "ask", "k", cache_s=60)
    with cache.asking(request, caller) as keep:
        keep(Reply({"role": "assistant", "content": "hello"}, NO_USAGE))

    found = [cache.find(request, replace(caller, attempt=attempt)) for attempt in (1, 2)]

    assert [reply and reply.text for reply in found] == ["hello", None]
