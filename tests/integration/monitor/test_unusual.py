"""Runs that cost or repeat far more than usual are marked, and failures of one kind are one row."""

from __future__ import annotations

from sleipnir.scheduler.store.keys import run_key
from tests.support.engine import Engine
from tests.support.site import ServedSite

ASKS = """
start: ask
nodes:
  ask: {type: input, question: "Which?", next: z}
  z: {type: end}
"""
FAILS = """
settings: {tolerate_failures: false}
start: f
nodes:
  f: {type: script, script: f.sh, next: z}
  z: {type: end}
"""


def test_a_runaway_is_marked_in_lists_and_on_the_first_page(
    engine: Engine, site: ServedSite
) -> None:
    for _ in range(5):
        ended = engine.finish(ASKS, answers={"ask": ["x"]})
        engine.redis.hset(run_key("run", ended.run_id), "cost", "0.01")
    dear, usual, looping, fresh = (engine.finish(ASKS).run_id for _ in range(4))
    for run_id, cost in ((dear, "3.58"), (usual, "0.02")):
        engine.redis.hset(run_key("run", run_id), "cost", cost)
    engine.redis.hset(run_key("run", looping), "step", "1404")

    runs = {run["run_id"]: run["unusual"] for run in site.ask("/api/v1/runs").json["runs"]}
    now = site.ask("/api/v1/now").json
    pages = [site.ask(path).text for path in ("/runs", "/now")]

    assert "cost $3.58" in runs[dear]
    assert "1,404 steps" in runs[looping]
    assert runs[usual] is runs[fresh] is runs[ended.run_id] is None
    assert [run["run_id"] for run in now["unusual"]] == [dear, looping]
    assert all("unusual" in page and "1,404 steps" in page for page in pages)


def test_a_run_open_for_far_longer_than_usual_is_marked(engine: Engine, site: ServedSite) -> None:
    for _ in range(5):
        ended = engine.finish(ASKS)
        engine.clock.move(20)
        engine.client.answer(ended.run_id, "x")
        engine.drive()
    slow = engine.finish(ASKS).run_id
    engine.clock.move(90)
    engine.finish(ASKS)  # as long as usual
    engine.clock.move(30)

    now = site.ask("/api/v1/now").json

    assert [(run["run_id"], "open for" in run["unusual"]) for run in now["unusual"]] == [
        (slow, True)
    ]


def test_failures_of_one_kind_are_one_row(engine: Engine, site: ServedSite) -> None:
    for _ in range(3):
        engine.clock.move(1)
        newest = engine.finish(FAILS, {"f.sh": "echo 'no printer' >&2; exit 3"})
    engine.clock.move(1)
    other = engine.finish(FAILS, {"f.sh": "echo 'no paper' >&2; exit 4"})

    groups = site.ask("/api/v1/now").json["failing"]["groups"]
    page = " ".join(site.ask("/now").text.split())

    assert [(each["run_id"], each["count"]) for each in groups] == [
        (newest.run_id, 3),
        (other.run_id, 1),
    ]
    assert f"/runs?agent={groups[0]['agent']}&amp;cause={groups[0]['cause']}" in page
