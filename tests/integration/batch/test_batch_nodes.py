"""What a batch's runs did and cost, by node and by route."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.batch.results.by_node import batch_nodes
from sleipnir.scheduler.views.text.tables.batch_nodes import lines_of
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, fails, says

GRAPH = """
model: openai:m
cache: true
initial_state: {list: [a, b]}
start: ask
nodes:
  ask:
    type: llm
    prompt: "{{initial_prompt}}"
    max_attempts: 2
    output_schema: {type: object, properties: {score: {type: integer}}, required: [score]}
    next: [{when: score > 5, to: each}, {when: score < 0, to: odd}, {to: low}]
  each: {type: map, over: "{{list}}", as: x, branch: item, collect_into: found, next: high}
  item: {type: llm, prompt: "Rate {{x}}.", output_schema: {type: integer}}
  high: {type: end}
  low: {type: end}
  odd: {type: end}
"""
# Of one call, which uses 10 tokens of the prompt and 5 of the reply.
PRICES = {"openai:m": {"prompt": 1000.0, "completion": 2000.0}}


@pytest.fixture
def night(engine: Engine, server: ModelServer) -> None:
    """A batch of four lines; one asks what another one has asked, and one fails."""
    engine.configure(models={"prices": PRICES})
    server.when("Rate a.", says("1"))
    server.when("Rate b.", says("a two"), says("2"))
    server.when("Text:\na two", says("2"))
    server.when("Text:\npoor", says('{"score": 1}'))
    server.when("good", says('{"score": 9}'))
    server.when("bad", fails(500, "what?"), says("poor"))
    server.when("stuck", fails(400, "what?"))
    for prompt in ("good", "good", "bad", "stuck"):
        run_id = engine.submit(GRAPH, prompt=prompt, batch="night", strict=True)
        engine.drive()
        while not engine.run(run_id).is_final:
            engine.clock.move(60)
            engine.tick()
            engine.drive()


def rows(documents: list[Any]) -> dict[str, dict[str, Any]]:
    return {document["id"]: document for document in documents}


@pytest.mark.usefixtures("night")
def test_a_batch_is_told_by_node(engine: Engine) -> None:
    nodes = rows(batch_nodes(engine.client, "night").nodes())

    assert list(nodes) == ["ask", "each", "item", "high", "low"]
    assert nodes["ask"] == {
        "id": "ask",
        "visits": 4,
        "failed": 1,
        "retried": 1,
        "calls": 3,
        "extraction_calls": 1,
        "cached": 1,
        "tokens": 45,
        "cost_usd": pytest.approx(0.06),
        "share": pytest.approx(0.5),
    }
    assert nodes["item"]["visits"] == 4
    assert (nodes["item"]["calls"], nodes["item"]["extraction_calls"]) == (3, 1)
    assert nodes["item"]["cached"] == 3
    assert (nodes["each"]["visits"], nodes["low"]["visits"]) == (2, 1)
    assert nodes["high"]["share"] == 0


@pytest.mark.usefixtures("night")
def test_a_batch_is_told_by_route(engine: Engine) -> None:
    found = batch_nodes(engine.client, "night")

    assert found.routes() == [
        {"node": "ask", "index": 1, "label": "score > 5", "to": ["each"], "lines": 2},
        {"node": "ask", "index": 2, "label": "score < 0", "to": ["odd"], "lines": 0},
        {"node": "ask", "index": 3, "label": "else", "to": ["low"], "lines": 1},
    ]
    assert [" ".join(line.split()) for line in lines_of(found.nodes(), found.routes())] == [
        "",
        "NODE VISITS FAILED RETRIED CALLS EXTRACTION CACHED TOKENS COST SHARE",
        "ask 4 1 1 3 1 1 45 $0.0600 50%",
        "each 2 - - - - - - - -",
        "item 4 - - 3 1 3 45 $0.0600 50%",
        "high 2 - - - - - - - -",
        "low 1 - - - - - - - -",
        "",
        "NODE ROUTE LINES TO",
        "ask score > 5 2 each",
        "ask score < 0 - odd",
        "ask else 1 low",
    ]


def test_a_run_of_many_steps_is_read_whole(engine: Engine) -> None:
    graph = """
settings: {max_loop_iterations: 200}
initial_state: {n: 0}
start: count
nodes:
  count: {type: set, values: {n: n + 1}, next: [{when: n < 120, to: count}, {to: end}]}
  end: {type: end}
"""
    engine.finish(graph, batch="night")

    found = batch_nodes(engine.client, "night")

    assert rows(found.nodes())["count"]["visits"] == 120
    assert [route["lines"] for route in found.routes()] == [1, 1]
