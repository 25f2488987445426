"""What runs of an agent will do and cost, by the API and on the agent's page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says
from tests.support.site import ServedSite

GRAPH = """
model: openai:gpt-4o-mini
initial_state: {label: ""}
start: sort
nodes:
  sort:
    type: llm
    prompt: "Which topic? {{initial_prompt}}"
    max_tokens: 20
    state_updates: {label: "{{output}}"}
    next:
      - {when: "label == 'bill'", to: answer}
      - {to: done}
  answer: {type: llm, prompt: "Answer {{label}}.", max_tokens: 100, max_attempts: 3, next: done}
  done: {type: end, output: "{{label}}"}
"""
API = "/api/v1/agents/tested/plan"


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        server.when("refund", says("bill", prompt_tokens=100, completion_tokens=1))
        server.when("hello", says("other", prompt_tokens=100, completion_tokens=1))
        server.when("Answer", says("You get it.", prompt_tokens=50, completion_tokens=10))
        yield server


def bounds(figure: dict[str, float | None]) -> tuple[float | None, float | None]:
    return figure["least"], figure["most"]


def test_a_plan_has_bounds_by_node_and_calls_no_model(
    engine: Engine, site: ServedSite, models: ModelServer
) -> None:
    engine.write("tested", GRAPH)

    found = site.ask(API).json
    page = " ".join(site.ask("/agents/tested?tab=plan").text.split())

    calls = {each["id"]: bounds(each["calls"]) for each in found["nodes"]}
    assert calls == {"sort": (1, 1), "answer": (0, 3), "done": (0, 0)}
    assert bounds(found["per_line"]["calls"]) == bounds(found["total"]["calls"]) == (1, 4)
    assert bounds(found["per_line"]["tokens_out"]) == (0, 320)
    assert (found["lines"], found["sample"], found["recent"]) == (1, None, None)
    assert "<b>1 … 4</b>" in page
    assert "No run of this version has ended yet." in page
    assert models.requests == []


def test_recent_runs_stand_beside_the_bounds(engine: Engine, site: ServedSite) -> None:
    for text in ("refund", "hello", "hello", "refund"):
        engine.submit(GRAPH, prompt=text)
    engine.drive()

    recent = site.ask(API).json["recent"]
    page = " ".join(site.ask("/agents/tested?tab=plan").text.split())

    nodes = {each["id"]: each["calls"]["mean"] for each in recent["nodes"]}
    assert (recent["lines"], recent["failed"]) == (4, 0)
    assert nodes == {"sort": 1.0, "answer": 0.5, "done": 0.0}
    assert recent["line"]["tokens_in"]["mean"] == 125.0
    assert [(each["node"], each["lines"]) for each in recent["routes"]] == [("sort", 2)] * 2
    assert "1.5 in recent runs" in page

    engine.write("tested", GRAPH.replace("Which", "What"))

    assert site.ask(API).json["recent"] is None


def test_an_agent_that_cannot_be_planned_says_why(engine: Engine, site: ServedSite) -> None:
    engine.write("tested", GRAPH.replace("start: sort", "start: nowhere"))

    invalid = site.ask(API)

    assert (invalid.status, "nowhere" in invalid.text) == (422, True)
    assert site.ask("/api/v1/agents/none/plan").status == 404
    assert site.ask("/api/v1/agents/..%2Ftested/plan").status == 422
