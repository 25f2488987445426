"""When visits of a run were under way."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from sleipnir.worker.monitor.timeline import place, stretches, timeline_svg
from tests.support.engine import Clock, Engine
from tests.support.site import ServedSite

GRAPH = """
start: both
nodes:
  both: {type: script, script: go.sh, next: [ask, quick]}
  ask: {type: agent, agent: asker, prompt: "well?", state_updates: {said: "{{output}}"}, next: z}
  quick: {type: script, script: go.sh, state_updates: {}, next: z}
  z: {type: end}
"""
ASKER = """
start: ask
nodes:
  ask: {type: input, question: "well?", next: z}
  z: {type: end, output: "{{input}}"}
"""


def test_each_visit_is_a_bar_and_the_slowest_of_a_step_is_told(
    engine: Engine, clock: Clock, site: ServedSite
) -> None:
    engine.write("asker", ASKER)
    run_id = engine.finish(GRAPH, {"go.sh": "echo '{}'"}).run_id
    base = f"/runs/{run_id}/timeline"

    waiting = site.ask(f"/api/v1{base}").json["rows"]
    clock.move(3_600)
    engine.client.answer(run_id, "yes")
    engine.drive()
    rows = site.ask(f"/api/v1{base}").json["rows"]
    page = site.ask(base).text

    assert [(row["node"], row["state"]) for row in waiting[-2:]] == [
        ("ask", "waiting"),
        ("quick", "waiting"),
    ]
    by_node = {row["node"]: row for row in rows if row["step"] > 0}
    assert by_node["ask"]["took_ms"] == 3_600_000
    assert {name for name, row in by_node.items() if row["held_up"]} == {"ask"}
    assert "step 2, ask, done 1 h" in page
    first = site.ask(f"/api/v1{base}?limit=1").json
    assert site.ask(f"/api/v1{base}?limit=9&from={first['next']}").json["rows"][0]["step"] > 0


def test_long_pauses_are_folded() -> None:
    hour = 3_600_000
    bars = [(0, 1_000), (1_500, 3_000), (hour, hour + 1_000)]

    found = stretches(bars, 100)

    assert [each.is_folded for each in found] == [False, True, False]
    assert found[1].width == pytest.approx(4)
    assert place(0, found) == 0
    assert place(3_000, found) == pytest.approx(72)
    assert place(hour + 1_000, found) == pytest.approx(100)
    assert stretches([], 100) == []


def test_hostile_names_stay_text() -> None:
    row = {"step": 1, "node": "<script>", "state": "done", "began_ms": 0, "took_ms": 5}

    drawn = timeline_svg([{**row, "items": None, "held_up": False}], 10)

    assert "<script>" not in drawn
    assert ElementTree.fromstring(drawn).tag == "svg"
