"""Settings of requests to models: of a node, of its graph, and further fields."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.llm.client import Endpoint, ModelCallFailed, ModelRequest, complete
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says

GRAPH = """
model: openai:m
{top}
start: ask
nodes:
  ask: {{type: llm, prompt: "Say it.", next: done, {node}
        state_updates: {{said: "{{{{output}}}}"}}}}
  done: {{type: end, output: "{{{{said}}}}"}}
"""
HELLO = [{"role": "user", "content": "hello"}]


def finish(engine: Engine, node: str = "", top: str = "") -> str | None:
    return engine.finish(GRAPH.format(node=node and f"{node},", top=top)).output


def sent(server: ModelServer) -> list[dict[str, Any]]:
    """The fields of each request, without those of any."""
    usual = {"model", "messages"}
    return [{k: v for k, v in each.body.items() if k not in usual} for each in server.requests]


def test_a_nodes_own_settings_replace_the_graphs(engine: Engine, server: ModelServer) -> None:
    top = """
seed: 1
stop: [END]
max_tokens: 50
params: {top_k: 5, user: a}
"""
    server.script.add(says("it"), says("it"), says("it"))

    finish(engine, top=top)
    finish(engine, "seed: 2, stop: [], params: {top_k: 6, user: null, logit_bias: {'1': 2}}", top)
    finish(engine, "stop: STOP")

    assert sent(server) == [
        {"seed": 1, "stop": ["END"], "max_completion_tokens": 50, "top_k": 5, "user": "a"},
        {"seed": 2, "max_completion_tokens": 50, "top_k": 6, "logit_bias": {"1": 2}},
        {"stop": "STOP"},
    ]


def test_extractors_are_asked_with_all_but_stop(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("Seven."), says("seven"), says("7"))
    settings = "seed: 2, stop: [END], params: {top_k: 6}"

    output = finish(engine, f"output_schema: {{type: integer}}, {settings}")

    assert output == "7"
    further = {"seed": 2, "top_k": 6}
    assert sent(server) == [{"stop": ["END"], **further}, further, further]


@pytest.mark.parametrize("change", ["seed: 2", "stop: [END]", "params: {top_k: 6}"])
def test_a_kept_reply_is_of_equal_settings(
    engine: Engine, server: ModelServer, change: str
) -> None:
    server.script.add(says("one"), says("two"))

    said = [finish(engine, f"cache: true, {more}") for more in ("seed: 1", "seed: 1", change)]

    assert said == ["one", "one", "two"]


def test_further_fields_reach_a_provider_with_a_protocol_of_its_own(server: ModelServer) -> None:
    endpoint = Endpoint("anthropic/claude-sonnet-4-5", server.base_url, "sk-of-this-test")
    server.script.add(says("hi"))
    params = {"top_k": 5, "metadata": {"user_id": "a"}, "thinking": {"type": "disabled"}}

    # The scripted server does not reply in its form.
    with pytest.raises(ModelCallFailed):
        complete(ModelRequest("anthropic:m", HELLO, stop="END", params=params), endpoint=endpoint)

    (request,) = sent(server)
    assert request.items() >= {**params, "stop_sequences": ["END"]}.items()


@pytest.mark.parametrize("name", ["api_base", "base_url", "mock_response", "extra_headers"])
def test_no_further_field_leads_a_key_elsewhere(server: ModelServer, name: str) -> None:
    endpoint = Endpoint("anthropic/claude-sonnet-4-5", server.base_url, "sk-of-this-test")

    with pytest.raises(ModelCallFailed, match=f"params: '{name}' cannot be sent to anthropic"):
        complete(ModelRequest("anthropic:m", HELLO, params={name: "x"}), endpoint=endpoint)

    assert server.requests == []
