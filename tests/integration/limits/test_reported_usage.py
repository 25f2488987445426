"""What a model server says of tokens is only what it says: no number of it strands a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says

# What cannot be counted is printed by litellm's records, where they are not made errors.
pytestmark = [
    pytest.mark.usefixtures("each_client"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]

GRAPH = """
start: ask
initial_state: {items: [1, 2]}
nodes:
  ask: {type: llm, model: openai:gpt-4o-mini, prompt: hello, next: each}
  each: {type: map, over: "{{items}}", as: item, branch: again, collect_into: said, next: done}
  again: {type: llm, model: openai:gpt-4o-mini, prompt: "{{item}}"}
  done: {type: end, output: "{{said}}"}
"""

COUNTS: dict[str, dict[str, Any]] = {
    "negative": {"prompt_tokens": -5, "completion_tokens": -(2**70)},
    "beyond 64 bits": {"prompt_tokens": 2**70, "completion_tokens": 2**63},
    "thousands of digits": {"prompt_tokens": 10**4000},
    "nothing": {"prompt_tokens": None, "completion_tokens": None},
    "cached": {"prompt_tokens_details": {"cached_tokens": 10**30}},
    "cached negative": {"prompt_tokens_details": {"cached_tokens": -3}},
}

# Of some of these litellm makes an error, as of other replies that it cannot read.
NONSENSE = [
    "lots",
    [],
    {"prompt_tokens": float("nan")},
    {"prompt_tokens": 1.5, "completion_tokens": 1e300},
    {"prompt_tokens": "12", "completion_tokens": "many"},
    {"prompt_tokens": {"a": 1}, "completion_tokens": [2]},
]


@pytest.mark.parametrize("counts", COUNTS)
def test_a_run_ends_whatever_is_reported(engine: Engine, server: ModelServer, counts: str) -> None:
    server.script.add(*[says("hi", usage=COUNTS[counts])] * 3)

    run = engine.finish(GRAPH)

    assert (run.status, run.output) == ("succeeded", '["hi","hi"]')
    assert run.usage.prompt_tokens >= run.usage.cached_tokens >= 0
    assert run.usage.completion_tokens >= 0
    assert run.usage.cost_usd is None or run.usage.cost_usd >= 0
    assert_consistent(engine.redis, runs=1)


@pytest.mark.parametrize("usage", NONSENSE, ids=repr)
def test_a_run_ends_where_usage_makes_no_sense_at_all(
    engine: Engine, server: ModelServer, usage: Any
) -> None:
    server.script.add(*[says("hi", usage=usage)] * 9)

    run = engine.finish(GRAPH)

    assert run.is_final
    assert run.failure is None or run.failure.code != "R022"
    assert_consistent(engine.redis, runs=1)
