"""The tab *Graph*, its panel and its steps, and the drawing of an agent."""

from __future__ import annotations

import json
import re
from html import unescape

from sleipnir.scheduler.store.keys import run_key
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, fails, says
from tests.support.site import ServedSite

ROUNDS = """
model: openai:a
settings: {tolerate_failures: false}
start: draft
nodes:
  draft: {type: llm, instructions: Be brief., prompt: "Write on {{initial_prompt}} ({{n}}).",
          max_attempts: 1, state_updates: {text: "{{output}}"}, next: gate}
  gate: {type: script, script: gate.py, next: review}
  review: {type: approval, question: "Publish {{text}}?", options: ["yes", "no"],
           routes: {"yes": z, "no": draft}, on_other: z}
  z: {type: end, output: "{{text}}"}
initial_state: {n: 0}
"""
GATE = """
import json, os
n = json.loads(os.environ["GRAPH_STATE"])["n"] + 1
print(json.dumps({"n": n, "_next": "dra" + "ft" if n < 2 else None}))
"""
FILES = {"gate.py": GATE}


def panel(page: str) -> str:
    """The panel of a node as text."""
    found = re.search(r"<aside class=\"node-panel.*?</aside>", page, re.DOTALL)
    assert found is not None
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def test_a_panel_shows_what_a_visit_was_given_sent_and_replied(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    for text in ("First.", "Second.", "Third."):
        server.script.add(says(text, prompt_tokens=10, completion_tokens=2))
    run = engine.finish(ROUNDS, FILES, prompt="bees", answers={"review": ["yes"]})

    newest = panel(site.ask(f"/runs/{run.run_id}/graph?node=draft").text)
    first = panel(site.ask(f"/runs/{run.run_id}/graph?node=draft&step=1").text)

    for said in (
        "Visits 2",
        "openai:a",
        "Visit in step 3",
        "In 2 keys of the state initial_prompt",
    ):
        assert said in newest
    assert "Prompt as sent system Be brief. user Write on bees (1)." in newest
    assert "Reply Second." in newest
    assert "Writes 1 text Second." in newest
    assert "user Write on bees (0). Reply First." in first


def test_a_call_that_was_refused_shows_what_was_sent_in_the_panel(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.script.add(fails(400, "maximum context length"))
    run = engine.finish(ROUNDS, FILES, prompt="bees")

    shown = panel(site.ask(f"/runs/{run.run_id}/graph").text)

    assert "✕ failed" in shown
    assert "user Write on bees (0). Reply" in shown
    assert shown.count("maximum context length") >= 2  # the error of the node, and of its call


def test_nodes_and_routes_are_compared_with_other_runs_of_the_version(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.when("Write", says("Text.", prompt_tokens=10, completion_tokens=2))
    runs = [
        engine.submit_agent("writer", ROUNDS, FILES, prompt="bees", answers={"review": answers})
        for answers in (["yes"], ["yes"], ["no", "yes"])
    ]
    engine.drive()

    shown = panel(site.ask(f"/runs/{runs[0]}/graph?node=draft").text)
    agent = site.ask("/agents/writer?tab=graph").text
    usual = site.ask(f"/api/v1/runs/{runs[0]}/graph").json["usual"]

    assert re.search(r"Time \S+ s usual \S+ s", shown)
    assert (usual["runs"], usual["nodes"]["draft"]["runs"]) == (3, 3)
    assert {"from": "review", "to": "draft", "runs": 1} in usual["routes"]
    assert "Of the last 3 runs of this version" in " ".join(agent.split())
    # One of three said no; what all did has no number.
    assert "taken in 33.3 % of runs</title>no 33.3 %</text>" in agent
    assert "100 %" not in re.sub(r".*<svg class=\"graph\"|</svg>.*", "", agent, flags=re.DOTALL)


def test_steps_are_told_all_at_once(engine: Engine, site: ServedSite, server: ModelServer) -> None:
    server.when("Write", says("Text.", prompt_tokens=10, completion_tokens=2))
    run = engine.finish(ROUNDS, FILES, prompt="bees", answers={"review": ["yes"]})

    told = site.ask(f"/api/v1/runs/{run.run_id}/playback").json
    rest = site.ask(f"/api/v1/runs/{run.run_id}/playback?from=4").json

    draft, gate, review, z = (
        told["nodes"].index(each) for each in ("draft", "gate", "review", "z")
    )
    ran = [step["ran"] for step in told["steps"]]
    assert ran == [[], [draft], [gate], [draft], [gate], [review], [z]]
    assert told["steps"][2]["taken"] == [[gate, draft]]
    assert told["steps"][2]["next"] == [draft]
    assert told["marks"] == {"failed": [], "asked": [5], "again": [3, 4]}
    assert (rest["steps"], rest["next"]) == (told["steps"][4:], None)
    assert rest["marks"]["again"] == [4]


def test_the_direction_of_drawings_is_remembered(engine: Engine, site: ServedSite) -> None:
    run_id = engine.submit(
        "start: a\nnodes: {a: {type: input, question: x, next: z}, z: {type: end}}"
    )
    headers = {"Cookie": site.cookie}

    def is_wide(query: str = "", cookie: str = "") -> bool:
        given = {"Cookie": f"{site.cookie}; {cookie}"}
        page = site.ask(f"/runs/{run_id}/graph{query}", headers=given).text
        found = re.search(r'data-whole="\S+ \S+ (\S+) (\S+)"', page)
        assert found is not None
        return float(found[1]) > float(found[2])

    chosen = site.ask(f"/runs/{run_id}/graph?dir=tb", headers=headers)
    remembered = chosen.headers["Set-Cookie"].split(";")[0]

    assert remembered == "sleipnir_dir=tb"
    assert [is_wide(), is_wide("?dir=tb"), is_wide(cookie=remembered)] == [True, False, False]
    assert is_wide("?dir=lr", remembered)
    assert site.ask(f"/runs/{run_id}/graph?dir=up", headers=headers).status == 400


def test_an_empty_node_closes_the_panel(engine: Engine, site: ServedSite) -> None:
    run_id = engine.finish(
        "start: a\nnodes: {a: {type: input, question: x, next: z}, z: {type: end}}"
    )

    assert "node-panel" in site.ask(f"/runs/{run_id.run_id}/graph").text
    assert "node-panel" not in site.ask(f"/runs/{run_id.run_id}/graph?node=").text


def test_a_page_of_200_nodes_stays_small(engine: Engine, site: ServedSite) -> None:
    nodes = [
        f"  transform_customers_{n}: {{type: script, script: go.sh, next: {to}}}"
        for n in range(199)
        for to in [f"transform_customers_{n + 1}" if n < 198 else "z"]
    ]
    graph = "\n".join(["start: transform_customers_0", "nodes:", *nodes, "  z: {type: end}"])
    run_id = engine.submit(graph, {"go.sh": "echo '{}'"})
    done = [
        {
            "at": engine.clock.ms + step,
            "step": step,
            "frontier": [f"transform_customers_{step}"],
            "nodes": {f"transform_customers_{step - 1}": {"ms": 1_234, "usage": [9, 9, 0.0016, 0]}},
            "writes": {},
        }
        for step in range(1, 198)
    ]
    engine.redis.rpush(run_key("history", run_id), *map(json.dumps, done))
    engine.redis.hset(
        run_key("run", run_id), mapping={"step": 198, "frontier": "transform_customers_197"}
    )

    page = site.ask(f"/runs/{run_id}/graph?node=transform_customers_7").text

    assert page.count('class="node type-') == 200
    assert len(page.encode()) < 250_000
