"""What providers are told about caching the beginning of prompts, and what they charge for it."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.llm.client import Endpoint, ModelCallFailed, ModelRequest, PromptCaching
from sleipnir.worker.llm.client import complete as ask_once
from sleipnir.worker.llm.prompt_caching import told_to_cache
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Request, calls, fails, says

CLAUDE = "openrouter:anthropic/claude-sonnet-4"
LONG, SHORT = "Be brief. " * 500, "Be brief."
GRAPH = """
model: {model}
{top}
start: ask
nodes:
  ask: {{type: llm, instructions: "{instructions}", prompt: "Say it.", next: done, {node}
        max_attempts: 1, state_updates: {{said: "{{{{output}}}}"}}}}
  done: {{type: end, output: "{{{{said}}}}"}}
"""
MAP = """
model: {model}
initial_state: {{words: [a, b]}}
start: each
nodes:
  each: {{type: map, over: "{{{{words}}}}", as: word, branch: ask, collect_into: said, next: done}}
  ask: {{type: llm, instructions: "{instructions}", prompt: "Say {{{{word}}}}."}}
  done: {{type: end}}
"""
TOOLS = """
def look(word: str):
    \"""Look it up.\"""
    return word
"""


@pytest.fixture(autouse=True)
def _openrouter(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_BASE", server.base_url)
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-only-for-this-test")


def graph(node: str = "", top: str = "", model: str = CLAUDE, instructions: str = LONG) -> str:
    node = node and f"{node},"
    return GRAPH.format(model=model, top=top, node=node, instructions=instructions)


def marks(request: Request) -> list[Any]:
    """The mark at the end of each message, if there is one."""
    contents = [message.get("content") for message in request.messages]
    return [c[-1].get("cache_control") if isinstance(c, list) else None for c in contents]


MARK = {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("node", "top", "batch", "instructions", "mark"),
    [
        ("", "", None, LONG, None),  # one of one
        ("", "", "b", LONG, MARK),
        ("", "", "b", SHORT, None),
        ("prompt_cache: true", "", None, SHORT, MARK),
        ("prompt_cache: 1h", "", None, SHORT, {**MARK, "ttl": "1h"}),
        ("", "prompt_cache: true", None, SHORT, MARK),
        ("prompt_cache: auto", "prompt_cache: true", None, SHORT, None),
        ("prompt_cache: false", "", "b", LONG, None),
    ],
)
def test_the_instructions_are_marked_where_that_is_worth_it(
    engine: Engine,
    server: ModelServer,
    node: str,
    top: str,
    batch: str | None,
    instructions: str,
    mark: Any,
) -> None:
    server.script.add(says("it"))

    run = engine.finish(graph(node, top, instructions=instructions), batch=batch)

    assert run.output == "it"
    assert marks(server.requests[0]) == [mark, None]


def test_branches_of_maps_and_loops_of_tools_are_many_calls(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("a"), says("b"), calls(("look", {"word": "x"})), says("c"))

    engine.finish(MAP.format(model=CLAUDE, instructions=LONG))
    engine.finish(graph("tools: [look]"), {"tools.py": TOOLS})

    assert [marks(each) for each in server.requests] == [
        *([MARK, None], [MARK, None]),
        [MARK, MARK],
        [MARK, None, None, MARK],
    ]


def test_openai_is_given_a_key_and_what_it_does_not_take_is_left_out(
    engine: Engine, server: ModelServer
) -> None:
    refused = fails(400, "Unrecognized request argument supplied: prompt_cache_key")
    server.script.add(says("it"), says("it"), refused, says("it"), says("it"))
    long = graph(model="openai:m")

    run_ids = [engine.submit(long, batch=batch) for batch in ("b", None, "b", "b")]
    engine.drive()

    assert [engine.run(each).output for each in run_ids] == ["it"] * 4
    digest = engine.run(run_ids[0]).digest
    keys = [each.body.get("prompt_cache_key") for each in server.requests]
    assert keys == [None, *[f"{digest[:12]}/ask"] * 2, None, None]  # the single run goes first


def test_marks_and_keys_are_no_part_of_what_makes_requests_equal(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("it"))

    first = engine.finish(graph("cache: true, prompt_cache: true"))
    second = engine.finish(graph("cache: true, prompt_cache: false"))

    assert (first.output, second.output, len(server.requests)) == ("it", "it", 1)


def test_anthropic_gets_the_marks_in_its_own_form(server: ModelServer) -> None:
    messages = [{"role": "system", "content": SHORT}, {"role": "user", "content": "hello"}]
    caching = PromptCaching("k", always=True, loops=True, ttl="1h")
    request = told_to_cache(ModelRequest("anthropic:m", messages, caching=caching))
    endpoint = Endpoint("anthropic/claude-sonnet-4-5", server.base_url, "sk-of-this-test")
    server.script.add(says("in another form"))

    with pytest.raises(ModelCallFailed):
        ask_once(request, endpoint=endpoint)

    mark, body = {"type": "ephemeral", "ttl": "1h"}, server.requests[0].body
    assert body["system"][-1]["cache_control"] == mark
    assert body["messages"][0]["content"][-1]["cache_control"] == mark


def test_what_was_written_to_a_cache_has_its_own_price(engine: Engine, server: ModelServer) -> None:
    price = {"prompt": 1.0, "completion": 0.0, "cached": 0.1, "cache_write": 2.0}
    engine.configure(models={"prices": {"openai:m": price}})
    details = {"cached_tokens": 300, "cache_write_tokens": 500}
    server.script.add(says("it", prompt_tokens=1_000, usage={"prompt_tokens_details": details}))

    usage = engine.finish(graph(model="openai:m")).usage

    assert (usage.cached_tokens, usage.cache_written_tokens) == (300, 500)
    assert usage.cost_usd == pytest.approx((200 + 30 + 1_000) * 1e-6)


@pytest.mark.parametrize(("budget_usd", "code"), [(0.002, "R025"), (0.004, None)])
def test_a_budget_has_room_for_writing_the_whole_prompt_to_a_cache(
    engine: Engine, server: ModelServer, budget_usd: float, code: str | None
) -> None:
    price = {"prompt": 1.0, "completion": 0.0, "cache_write": 2.0}
    budgets = {"run": {"usd": budget_usd}}
    engine.configure(models={"prices": {"openai:m": price}, "budgets": budgets})
    server.script.add(says("it"))

    failure = engine.finish(graph(model="openai:m")).failure

    assert (None if failure is None else failure.code) == code
