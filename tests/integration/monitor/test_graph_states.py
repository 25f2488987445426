"""What drawings say of a run: how each node stands, and the routes that it has taken."""

from __future__ import annotations

import re
from typing import Any

from sleipnir.graphs.drawing.outline import TIMES
from tests.support.engine import Engine
from tests.support.site import ServedSite

WIDE = """
settings: {tolerate_failures: false, max_concurrency: 3}
start: fork
nodes:
  fork: {type: script, script: go.sh, next: [a, b, broken, ask, later]}
  a: {type: script, script: go.sh, state_updates: {}, next: z}
  ask: {type: agent, agent: asker, prompt: "?", state_updates: {said: "{{output}}"}, next: z}
  b: {type: script, script: go.sh, state_updates: {}, next: z}
  broken: {type: script, script: broken.sh, state_updates: {}, next: z}
  later: {type: script, script: go.sh, state_updates: {}, next: z}
  z: {type: end}
"""
ASKER = """
start: ask
nodes:
  ask: {type: input, question: "ok?", next: z}
  z: {type: end, output: "{{input}}"}
"""
LOOP = """
start: draft
nodes:
  draft: {type: script, script: draft.sh, next: gate}
  gate: {type: script, script: gate.py, next: publish}
  aside: {type: script, script: draft.sh, next: publish}
  publish: {type: end}
"""
# Names a target in a way that no text tells.
GATE = """
import json, os
n = json.loads(os.environ["GRAPH_STATE"]).get("n", 0) + 1
print(json.dumps({"n": n, "_next": "dra" + "ft" if n < 4 else "aside" if n < 5 else None}))
"""
FILES = {"go.sh": "echo '{}'", "broken.sh": "exit 3", "draft.sh": "echo '{}'", "gate.py": GATE}


def states(site: ServedSite, run_id: str, query: str = "") -> dict[str, str]:
    nodes = site.ask(f"/api/v1/runs/{run_id}/graph{query}").json["nodes"]
    return {node["id"]: node["state"] for node in nodes}


def arrows(site: ServedSite, run_id: str, query: str = "") -> dict[tuple[str, str], Any]:
    found = site.ask(f"/api/v1/runs/{run_id}/graph{query}").json["arrows"]
    return {(each["from"], each["to"]): (each["kind"], each["taken"]) for each in found}


def test_only_the_node_that_failed_has_failed(engine: Engine, site: ServedSite) -> None:
    engine.write("asker", ASKER)
    run = engine.finish(WIDE, FILES)

    assert run.failure is not None
    assert run.failure.node == "broken"
    assert states(site, run.run_id) == {
        "fork": "done",
        "a": "staged",
        "b": "staged",
        "ask": "interrupted",
        "broken": "failed",
        "later": "untouched",
        "z": "untouched",
    }
    page = site.ask(f"/runs/{run.run_id}").text
    assert len(re.findall(r"✕ failed[^<]*</tspan>", page)) == 1
    assert page.count("✓ done, not kept</tspan>") == 2


def test_branches_of_an_open_step_stand_as_they_are(engine: Engine, site: ServedSite) -> None:
    engine.write("asker", ASKER)
    graph = WIDE.replace("broken.sh", "go.sh")
    run_id = engine.submit(graph, FILES)
    engine.work_once()
    before = states(site, run_id)
    engine.work_once()
    begun = states(site, run_id)
    engine.drive()
    parked = states(site, run_id)
    engine.client.cancel(run_id)

    assert {before[node] for node in ("a", "b", "broken")} >= {"running"}
    assert before["later"] == "queued"
    assert begun["a"] == "staged"
    assert {parked[node] for node in ("a", "b", "broken", "later")} == {"staged"}
    assert parked["ask"] == "waiting"
    assert states(site, run_id) == {
        **dict.fromkeys(("a", "b", "broken", "later"), "staged"),
        "fork": "done",
        "ask": "interrupted",
        "z": "untouched",
    }


def test_a_run_that_goes_round_too_often_has_no_other_failed_nodes(
    engine: Engine, site: ServedSite
) -> None:
    graph = LOOP.replace("start:", "settings: {max_loop_iterations: 2}\nstart:")
    run = engine.finish(graph, FILES)

    assert run.failure is not None
    assert run.failure.code == "R004"
    assert states(site, run.run_id) == {
        "draft": "failed",
        "gate": "done",
        "aside": "untouched",
        "publish": "untouched",
    }


def test_routes_that_a_script_chose_are_drawn_from_the_history(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(LOOP, FILES)

    taken = arrows(site, run.run_id)
    first = arrows(site, run.run_id, "?step=2")
    page = site.ask(f"/runs/{run.run_id}").text

    assert taken == {
        ("draft", "gate"): ("usual", 4),
        ("gate", "publish"): ("usual", 0),
        ("aside", "publish"): ("usual", 1),
        ("gate", "aside"): ("chosen", 1),  # named in the script
        ("gate", "draft"): ("chosen", 3),
    }
    # All steps have the same drawing.
    assert first == {ends: (kind, 0) for ends, (kind, _) in taken.items()} | {
        ("draft", "gate"): ("usual", 1),
        ("gate", "draft"): ("chosen", 1),
    }
    gate_to_draft = 'class="arrow arrow-chosen is-taken wide-1" data-ends="1 0" data-taken="3"'
    assert gate_to_draft in page
    assert f">_next {TIMES}3</text>" in page


def test_arrows_have_their_conditions_and_those_that_lead_back_are_marked(
    engine: Engine, site: ServedSite
) -> None:
    condition = "size(draft) < 280 && !draft.contains('order') && visit < 9"
    run = engine.finish(f"""
start: write
nodes:
  write: {{type: set, values: {{draft: "'text'"}}, next: gate}}
  gate:
    type: set
    next:
      - {{when: "{condition}", to: write, max: 3}}
      - {{to: done}}
  done: {{type: end}}
""")

    page = site.ask(f"/runs/{run.run_id}/graph").text
    arrows = site.ask(f"/api/v1/runs/{run.run_id}/graph").json["arrows"]

    whole = condition.replace("&", "&amp;").replace("<", "&lt;")
    assert f"<title>{whole}, max 3</title>" in page
    assert f", max 3 {TIMES}3</text>" in page
    assert [arrow["kind"] for arrow in arrows if arrow["to"] == "write"] == ["back"]
