"""When visits of a run were under way."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from sleipnir.worker.monitor.charts.timeline import (
    TimelineLinks,
    place,
    stretches,
    ticks,
    timeline_svg,
)
from tests.support.engine import Clock, Engine
from tests.support.model_server import ModelServer, calls, fails, says
from tests.support.site import ServedSite

LINKS = TimelineLinks("/runs", "/runs/r/model")

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
    clock.move(5)
    engine.drive()
    rows = site.ask(f"/api/v1{base}").json["rows"]
    page = site.ask(base).text

    assert [(row["node"], row["state"]) for row in waiting[-2:]] == [
        ("ask", "waiting"),
        ("quick", "staged"),
    ]
    by_node = {row["node"]: row for row in rows if row["step"] > 0}
    assert by_node["ask"]["took_ms"] == by_node["ask"]["parked_ms"] == 3_605_000
    assert (by_node["ask"]["waited_ms"], by_node["quick"]["parked_ms"]) == (0, 0)
    assert {name for name, row in by_node.items() if row["held_up"]} == {"ask"}
    assert "step 2, ask, done 1 h, parked 1 h" in page
    first = site.ask(f"/api/v1{base}?limit=1").json
    assert site.ask(f"/api/v1{base}?limit=9&from={first['next']}").json["rows"][0]["step"] > 0


def test_waiting_to_begin_is_told_apart_from_work_and_from_rest(
    engine: Engine, clock: Clock, site: ServedSite
) -> None:
    graph = """
    start: try
    nodes:
      try: {type: script, script: try.sh, max_attempts: 2, next: z}
      z: {type: end}
    """
    once = "[ -e tried ] && echo '{}' || { touch tried; exit 1; }"
    run_id = engine.submit(graph, {"try.sh": once})
    clock.move(7)
    engine.work_once()
    clock.move(60)  # longer than it is to rest
    engine.tick()
    engine.drive()

    row = site.ask(f"/api/v1/runs/{run_id}/timeline").json["rows"][0]
    node, end = site.ask(f"/api/v1/runs/{run_id}/graph").json["nodes"]
    bars = ElementTree.fromstring(timeline_svg([row], row["began_ms"], LINKS)).iter()

    assert (row["waited_ms"], row["parked_ms"]) == (7_000, 60_000)
    assert row["took_ms"] >= 60_000
    assert (node["waited_s"], node["parked_s"], end["waited_s"]) == (7, 60, 0)
    shown = [bar.get("class") for bar in bars if bar.tag.endswith("rect")]
    assert shown == ["waits", "bar state-done", "parked"]


def test_a_step_s_window_and_another_try_count_from_their_own_start(
    engine: Engine, clock: Clock, site: ServedSite, tmp_path: Path
) -> None:
    graph = """
    settings: {max_concurrency: 1, tolerate_failures: false}
    start: fork
    nodes:
      fork: {type: script, script: go.sh, next: [a, b]}
      a: {type: script, script: go.sh, state_updates: {}, next: join}
      b: {type: script, script: go.sh, state_updates: {}, next: join}
      join: {type: script, script: join.sh, next: z}
      z: {type: end}
    """
    once = f"mkdir {tmp_path}/tried && exit 1; echo '{{}}'"
    run_id = engine.submit(graph, {"go.sh": "echo '{}'", "join.sh": once})
    engine.work_once()
    engine.work_once()
    clock.move(9)  # the second branch had no place in the window
    engine.drive()
    clock.move(1_000)
    engine.client.retry(run_id)
    clock.move(4)
    engine.drive()

    rows = site.ask(f"/api/v1/runs/{run_id}/timeline").json["rows"]

    assert {row["node"]: row["waited_ms"] for row in rows} == {
        **dict.fromkeys(("fork", "a", "z"), 0),
        "b": 9_000,
        "join": 4_000,
    }


FAILING = """
settings: {tolerate_failures: false}
start: fork
nodes:
  fork: {type: script, script: go.sh, next: [broken, fine]}
  broken: {type: script, script: broken.sh, state_updates: {}, max_attempts: 3, next: z}
  fine: {type: script, script: go.sh, state_updates: {}, next: z}
  z: {type: end}
"""


@pytest.mark.parametrize("graph", [FAILING, FAILING.replace("[broken, fine]", "broken")])
def test_the_step_that_failed_has_its_attempts_and_pauses(
    engine: Engine, clock: Clock, site: ServedSite, graph: str
) -> None:
    run_id = engine.submit(graph, {"go.sh": "echo '{}'", "broken.sh": "exit 3"})
    clock.move(2)
    engine.drive()
    under_way = site.ask(f"/api/v1/runs/{run_id}/timeline").json["rows"][1]
    for _ in range(2):
        clock.move(60)
        engine.tick()
        engine.drive()
    run = engine.run(run_id)

    rows = {each["node"]: each for each in site.ask(f"/api/v1/runs/{run_id}/timeline").json["rows"]}
    page = site.ask(f"/runs/{run_id}/timeline").text

    broken = rows["broken"]
    assert (under_way["node"], under_way["state"]) == ("broken", "running")
    assert under_way["parked_since_ms"] == clock.ms - 120_000
    assert (run.status, broken["state"]) == ("failed", "failed")
    assert broken["took_ms"] == pytest.approx(120_000, abs=10_000)
    assert (broken["parked_ms"], broken["waited_ms"]) == (120_000, 0)
    assert [each["attempt"] for each in broken["pauses"]] == [2, 3]
    assert all("exit code 3" in each["reason"] for each in broken["pauses"])
    assert "z" not in rows
    assert rows.get("fine", {"state": "staged"})["state"] == "staged"
    assert "✕ failed 2 min, 3 attempts</text>" in page


def test_the_axis_has_marks_at_round_distances_except_where_it_is_folded() -> None:
    hour = 3_600_000
    bars = stretches([(500, 40_500), (hour, hour + 20_000)], 760)

    marks = ticks(bars)

    assert [each.since_ms for each in marks][:4] == [0, 10_000, 20_000, 30_000]
    assert all(each.since_ms % 10_000 == 0 for each in marks)
    assert not any(40_500 < each.at < hour for each in marks)
    assert marks[-1].at > hour
    assert ticks([]) == []


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


def test_waiting_for_a_person_is_folded_too(engine: Engine, site: ServedSite) -> None:
    graph = """
    start: work
    nodes:
      work: {type: script, script: work.sh, next: ask}
      ask: {type: input, question: "ok?", next: z}
      z: {type: end}
    """
    run = engine.finish(graph, {"work.sh": "echo '{}'"})
    engine.clock.move(3 * 3_600)

    page = site.ask(f"/runs/{run.run_id}/timeline").text

    assert 'class="pause"' in page
    assert ">3 h</text>" in page
    assert 'class="parked"' in page


def test_hostile_names_stay_text() -> None:
    row = {"step": 1, "node": "<script>", "state": "done", "began_ms": 0, "took_ms": 5}
    rest = {"waited_ms": 0, "parked_ms": 0, "items": None, "held_up": False, "pauses": []}
    call = {"number": 1, "model": '<script a="', "state": "done", "began_ms": 0, "took_ms": 5}
    child = {"run_id": "c", "agent": "<script>", "state": "queued", "began_ms": None}
    inside = {
        "calls": [{**call, "tokens": 3, "tools": ["<script>"]}],
        "children": [{**child, "took_ms": None}],
        "more_calls": 2,
        "more_children": 7,
    }

    drawn = timeline_svg([{**row, **rest, **inside}], 10, LINKS)

    assert "<script" not in drawn
    assert ElementTree.fromstring(drawn).tag == "svg"
    assert "2 more calls" in drawn
    assert "7 more child runs" in drawn


CALLING = """
model: openai:m
settings: {tolerate_failures: false}
start: think
nodes:
  think: {type: llm, prompt: Think., tools: [look], max_attempts: 1, next: ask}
  ask: {type: agent, agent: asker, prompt: "well?", state_updates: {said: "{{output}}"}, next: bad}
  bad: {type: llm, prompt: Think again., max_attempts: 1, next: z}
  z: {type: end}
"""
LOOK = """
def look(at: str) -> str:
    \"\"\"Looks.\"\"\"
    return at
"""


def test_a_visit_has_its_model_calls_and_child_runs(
    engine: Engine, clock: Clock, site: ServedSite, server: ModelServer
) -> None:
    engine.write("asker", ASKER)
    server.script.add(calls(("look", {"at": "it"})), says("So."), fails(400, "no such model"))
    run_id = engine.finish(CALLING, {"tools.py": LOOK}).run_id
    clock.move(90)
    engine.client.answer(run_id, "yes")
    engine.drive()
    (child,) = engine.client.queries.children(run_id)

    document = site.ask(f"/api/v1/runs/{run_id}/timeline").json
    page = site.ask(f"/runs/{run_id}/timeline").text
    rows = {each["node"]: each for each in document["rows"]}

    made = rows["think"]["calls"]
    assert [(each["number"], each["state"], each["tools"]) for each in made] == [
        (1, "done", ["look"]),
        (2, "done", []),
    ]
    assert made[0]["began_ms"] + made[0]["took_ms"] <= made[1]["began_ms"] + 1
    assert abs(made[0]["began_ms"] - rows["think"]["began_ms"]) < 10_000
    (started,) = rows["ask"]["children"]
    assert (started["run_id"], started["agent"], started["state"]) == (
        child.run_id,
        "asker",
        "succeeded",
    )
    assert started["took_ms"] == 90_000
    assert [each["state"] for each in rows["bad"]["calls"]] == ["failed"]
    assert rows["ask"]["calls"] == rows["think"]["children"] == []
    assert f'<a href="/runs/{child.run_id}">' in page
    assert f'<a href="/runs/{run_id}/model?node=bad&amp;step=3&amp;call=1">' in page
    assert "calls look</text>" in page
    assert "run asker, ✓ succeeded 1 min 30 s" in page
    (call,) = site.ask(f"/api/v1/runs/{run_id}/model?node=bad").json["visits"][0]["exchanges"]
    assert call["began_at"] == rows["bad"]["calls"][0]["began_at"]


def test_calls_and_children_of_a_visit_are_bounded_and_count_for_a_page(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.write("asker", ASKER)
    server.script.add(*[calls(("look", {"at": str(at)})) for at in range(24)], says("So."))
    server.script.add(says("Fine."))
    graph = CALLING.replace("next: ask", "next: bad").replace(
        "max_attempts: 1,", "max_attempts: 1, max_iterations: 30,", 1
    )
    run_id = engine.finish(graph, {"tools.py": LOOK}).run_id
    base = f"/api/v1/runs/{run_id}/timeline"

    first = site.ask(f"{base}?limit=22").json
    second = site.ask(f"{base}?limit=22&from={first['next']}").json

    rows = [row for page in (first, second) for row in page["rows"]]
    assert [(row["node"], len(row["calls"]), row["more_calls"]) for row in rows] == [
        ("think", 20, 5),
        ("bad", 1, 0),
        ("z", 0, 0),
    ]
    assert len(first["rows"]) == 1


def test_a_turn_that_waited_for_a_person_has_its_call_where_it_was(
    engine: Engine, clock: Clock, site: ServedSite, server: ModelServer
) -> None:
    server.script.add(calls(("user__input", {"question": "Which?"})), says("So."))
    run_id = engine.submit_normal("model: openai:m\n", prompt="Go.")
    engine.drive()
    clock.move(3_600)
    engine.client.answer(run_id, "this one")
    engine.drive()

    turn, last = site.ask(f"/api/v1/runs/{run_id}/timeline").json["rows"][:2]

    (call,) = turn["calls"]
    assert turn["parked_ms"] == 3_600_000
    assert call["began_ms"] - turn["began_ms"] < 60_000  # not when the visit went on
    assert call["tools"] == ["user__input"]
    assert len(last["calls"]) == 1
