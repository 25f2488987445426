"""Patterns and schemas of an agent's author, or of a server, that take for ever on some value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sleipnir.worker.mcp.failures import McpFailed
from sleipnir.worker.mcp.pool import McpLimits, McpPool
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.mcp import plain_server
from tests.support.model_server import ModelServer, says

LIMIT_S = 0.3
WAIT_S = 120.0
BAIT = "a" * 60 + "!"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
REASON = "could not be checked within 0.3 s: pattern '^(a+)+$' at $.properties.name"

OF_A_MODEL = f"""
model: openai:m
start: ask
nodes:
  ask:
    type: llm
    prompt: hi
    output_schema: {json.dumps(SCHEMA)}
    next: done
    state_updates: {{said: "{{{{output}}}}"}}
  done: {{type: end, output: "{{{{said}}}}"}}
"""
OF_A_CHILD = f"""
model: openai:m
start: call
nodes:
  call:
    type: agent
    agent: helper
    prompt: hi
    output_schema: {json.dumps(SCHEMA)}
    next: done
  done: {{type: end, output: ok}}
"""
CHILD = f"""
start: done
nodes:
  done: {{type: end, output: '{{"name": "{BAIT}"}}'}}
"""


def test_a_reply_that_cannot_be_checked_fails_its_node(engine: Engine, server: ModelServer) -> None:
    engine.configure(check_timeout_s=LIMIT_S)
    server.script.add(says(json.dumps({"name": BAIT})))

    run = engine.finish(OF_A_MODEL)

    assert run.output == f"LLM node failed: structured output: {REASON}"
    assert len(server.requests) == 1  # an extractor's reply would be checked no sooner
    assert_consistent(engine.redis, runs=1)


def test_a_childs_output_that_cannot_be_checked_fails_its_node(engine: Engine) -> None:
    engine.configure(check_timeout_s=LIMIT_S)
    engine.write("helper", CHILD)

    run = engine.finish(OF_A_CHILD)

    assert run.failure is not None
    assert run.failure.code == "R018"
    assert REASON in run.failure.message


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": BAIT}, f"the result of 'more' {REASON}"),
        ({"name": 1}, r"the result of 'more' is not what it declares: $.name: 1 is not of type"),
    ],
)
def test_a_servers_result_is_checked_where_that_can_be_ended(
    tmp_path: Path, given: dict[str, object], reason: str
) -> None:
    pool = McpPool(McpLimits(check_s=LIMIT_S))
    try:
        with pytest.raises(McpFailed) as raised:
            pool.call(
                plain_server(json.dumps(SCHEMA), json.dumps(given)), tmp_path, "more", {}, WAIT_S
            )
    finally:
        pool.close()

    assert reason in str(raised.value)
