"""When visits of a run were under way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from sleipnir.graphs.drawing.outline import TIMES
from sleipnir.worker.monitor.charts.axis import axis_of
from sleipnir.worker.monitor.charts.timeline import (
    Lane,
    TimelineLinks,
    node_lines,
    timeline_of,
    visit_lines,
)
from sleipnir.worker.monitor.charts.tracks import minimap_svg, track_svg
from sleipnir.worker.monitor.handlers import run_parts
from sleipnir.worker.monitor.pages import run_timeline
from tests.support.engine import Clock, Engine
from tests.support.model_server import ModelServer, calls, fails, says
from tests.support.site import ServedSite

LINKS = TimelineLinks("/runs", "/runs/r")


def visit(step: int, node: str, began: int, took: int | None, **more: Any) -> dict[str, Any]:
    """A row of the document."""
    rest = {"waited_ms": 0, "parked_ms": 0, "parked_since_ms": None, "items": None}
    inside = {"calls": [], "more_calls": 0, "children": [], "more_children": 0}
    about = {"held_up": False, "pauses": [], "state": "done"}
    own = {"step": step, "node": node, "began_ms": began, "took_ms": took}
    return {**rest, **inside, **about, **own, **more}


def kinds(line: Lane) -> list[str]:
    return [bar.kind for bar in line.bars]


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
    (line,) = visit_lines([row], row["began_ms"], LINKS, {"try": "script"})

    assert (row["waited_ms"], row["parked_ms"]) == (7_000, 60_000)
    assert row["took_ms"] >= 60_000
    assert (node["waited_s"], node["parked_s"], end["waited_s"]) == (7, 60, 0)
    assert kinds(line) == ["waits", "work type-script", "parked"]


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
    assert 'class="end"' in page


def test_the_axis_has_marks_at_round_distances_except_where_it_is_folded() -> None:
    hour = 3_600_000
    axis = axis_of([(500, 40_500), (hour, hour + 20_000)])
    assert axis is not None

    marks = axis.marks()

    assert [each.since_ms for each in marks][:4] == [0, 10_000, 20_000, 30_000]
    assert all(each.since_ms % 10_000 == 0 for each in marks)
    assert not any(40_500 < each.at < hour for each in marks)
    assert marks[-1].at > hour
    assert axis_of([]) is None


def test_long_pauses_are_folded() -> None:
    hour = 3_600_000
    bars = [(0, 1_000), (1_500, 3_000), (hour, hour + 1_000)]

    axis = axis_of(bars)
    assert axis is not None

    assert [each.is_folded for each in axis.stretches] == [False, True, False]
    assert axis.stretches[1].width == pytest.approx(4)
    assert axis.place(0) == 0
    assert axis.place(3_000) == pytest.approx(72)
    assert axis.place(hour + 1_000) == pytest.approx(100)


def test_a_part_of_the_time_fills_the_axis() -> None:
    rows = [visit(n, f"n{n}", 1_000 * n, 1_000) for n in range(1, 10)]
    lines = visit_lines(rows, 10_000, LINKS, {})

    found = timeline_of(lines, (2_500, 4_000))

    assert found is not None
    assert [line.name for line in found.lines] == ["3 n3", "4 n4", "5 n5"]
    assert [round(found.axis.place(at)) for at in (3_500, 4_250, 5_000, 9_000)] == [0, 50, 100, 100]
    assert found.axis.marks()[0].since_ms == 2_600
    assert 'class="here" x="27.78%"' in minimap_svg(found)


def test_many_visits_of_a_node_share_a_line_that_can_be_opened() -> None:
    loop = [
        each
        for n in range(5)
        for each in (
            visit(2 * n, "draft", 100 * n, 60),
            visit(2 * n + 1, "gate", 100 * n + 60, 40, state="tolerated" if n else "done"),
        )
    ]
    rows = [*loop, visit(10, "z", 500, None)]

    lines = visit_lines(rows, 900, LINKS, {"draft": "llm"})
    by_node = node_lines(rows[:2] + rows[-1:], 900, LINKS, {})

    assert [(line.name, line.is_folded, len(line.inside)) for line in lines] == [
        (f"draft {TIMES}5", True, 5),
        (f"gate {TIMES}5", True, 5),
        ("10 z", False, 0),
    ]
    assert lines[0].said == "0.3 s"
    assert lines[1].said == "0.2 s, ✕ 4"
    assert kinds(lines[0]) == ["work type-llm"] * 5
    assert (lines[2].bars[0].begin, lines[2].bars[0].end) == (500, 900)
    assert [line.name for line in by_node] == ["draft", "gate", "z"]


def test_a_visit_works_between_the_pauses_before_its_attempts() -> None:
    pauses = [
        {"began_ms": at, "allowed_ms": 5_000, "reason": "", "attempt": n}
        for n, at in ((2, 1_000), (3, 7_000))
    ]
    row = visit(1, "n", 0, 13_000, parked_ms=10_000, pauses=pauses, state="failed")

    (line,) = visit_lines([row], 0, LINKS, {})

    assert [(bar.kind, bar.begin, bar.end) for bar in line.bars] == [
        ("work", 0, 1_000),
        ("paused", 1_000, 6_000),
        ("work", 6_000, 7_000),
        ("paused", 7_000, 12_000),
        ("work", 12_000, 13_000),
        ("end", 13_000, 13_000),
    ]


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
    call = {"number": 1, "model": '<script a="', "state": "done", "began_ms": 0, "took_ms": 5}
    child = {"run_id": "c", "agent": "<script>", "state": "queued", "began_ms": None}
    inside = {
        "calls": [{**call, "tokens": 3, "tools": ["<script>"]}],
        "children": [{**child, "took_ms": None}],
        "more_calls": 2,
        "more_children": 7,
    }

    (line,) = visit_lines([visit(1, "<script>", 0, 5, **inside)], 10, LINKS, {})
    found = timeline_of([line], None)
    assert found is not None

    drawn = [track_svg(each, found.axis) for each in (line, *line.inside)]

    assert "<script" not in "".join(drawn)
    assert {ElementTree.fromstring(each).tag for each in drawn} == {"svg"}
    names = [each.name for each in line.inside]
    assert names == ['1 <script a="', "2 more calls", "run <script>", "7 more child runs"]


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
    assert f'href="/runs/{child.run_id}">run asker</a>' in page
    assert f'href="/runs/{run_id}/model?node=bad&amp;step=3&amp;call=1">' in page
    flame = site.ask(f"/runs/{run_id}/timeline?view=runs").text
    assert f'href="/runs/{child.run_id}">asker</a>' in flame
    zoomed = site.ask(f"/runs/{run_id}/timeline?from=0&to=1&view=nodes").text
    assert "Show all of the time" in zoomed
    assert 'aria-current="true">By node' in " ".join(zoomed.split())
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


OUTER = """
start: middle
nodes:
  middle: {type: agent, agent: middle, prompt: "", next: z}
  z: {type: end}
"""
MIDDLE = OUTER.replace("middle", "inner")
INNER = """
start: count
nodes:
  count: {type: script, script: go.sh, next: z}
  z: {type: end}
"""


@pytest.fixture
def family(engine: Engine) -> list[str]:
    """The ids of a run, of the child run that it has started, and of the one that that has."""
    engine.write("middle", MIDDLE)
    engine.write("inner", INNER, {"go.sh": "echo '{}'"})
    run_id = engine.finish(OUTER).run_id
    (middle,) = engine.client.queries.children(run_id)
    (inner,) = engine.client.queries.children(middle.run_id)
    return [run_id, middle.run_id, inner.run_id]


def told_rows(page: str) -> list[tuple[str, str]]:
    """The lines of a page: how deep they are, and their names."""
    found = re.findall(r'timeline-row depth-(\d)"><span class="timeline-name">(.*?)</span>', page)
    return [(depth, re.sub(r"<[^>]*>", "", name)) for depth, name in found]


def test_visits_of_child_runs_are_shown_inside_on_demand(
    site: ServedSite, family: list[str]
) -> None:
    run_id, middle, inner = family
    base = f"/runs/{run_id}/timeline"

    closed, one, both, only_inner, by_node = (
        site.ask(f"{base}?{query}").text
        for query in (
            "",
            f"open={middle}",
            f"open={middle},{inner}",
            f"open={inner}",
            f"view=nodes&open={middle}",
        )
    )

    outside = [("0", "1 middle"), ("1", "run middle"), ("0", "2 z")]
    assert told_rows(closed) == told_rows(only_inner) == outside
    assert told_rows(one)[1:5] == [
        ("1", "run middle"),
        ("2", "1 inner"),
        ("3", "run inner"),
        ("2", "2 z"),
    ]
    assert [name for depth, name in told_rows(both) if depth == "4"] == ["1 count", "2 z"]
    assert ("2", "1 inner") in told_rows(by_node)
    assert f'class="timeline-open" href="?open={middle}" aria-expanded="false"' in one_line(closed)
    assert f'href="{base}" aria-expanded="true" aria-label="What run middle did"' in one_line(one)
    assert f'href="?open={middle}%2C{inner}" aria-expanded="false"' in one_line(one)
    assert f'href="/runs/{inner}/graph?node=count">1 count</a>' in both


def one_line(page: str) -> str:
    return " ".join(page.split())


def test_only_runs_below_a_run_are_shown_inside_it(
    engine: Engine, site: ServedSite, family: list[str]
) -> None:
    other = engine.finish(OUTER).run_id
    (stranger,) = engine.client.queries.children(other)

    page = site.ask(f"/runs/{family[0]}/timeline?open={stranger.run_id},{'0' * 16}").text
    wrong = site.ask(f"/runs/{family[0]}/timeline?open=../x")

    assert len(told_rows(page)) == 3
    assert (wrong.status, "open takes ids of runs" in wrong.text) == (400, True)


def test_runs_shown_inside_another_are_bounded(
    site: ServedSite, family: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, middle, inner = family
    monkeypatch.setattr(run_timeline, "MOST_OPEN", 1)
    monkeypatch.setattr(run_parts, "_VISIT_ROWS_OF_CHILD", 1)

    page = site.ask(f"/runs/{run_id}/timeline?open={middle},{inner}").text

    assert [name for depth, name in told_rows(page) if depth > "1"] == [
        "1 inner",
        "run inner",
        "more visits",
    ]
    assert f'href="/runs/{middle}/timeline">more visits' in page
    assert page.count("timeline-open") == 1, "that of the one which can be closed"
    assert "The visits of 1 child runs are shown. Close one to open another." in one_line(page)
