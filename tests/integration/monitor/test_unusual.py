"""Runs that cost or repeat far more than usual are marked, and failures of one kind are one row."""

from __future__ import annotations

from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.store.keys import run_key
from tests.support.engine import Engine
from tests.support.runs import a_run, begin
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
    engine.redis.hset(run_key("run", looping), mapping={"step": "1404", "n:ask": "1404"})

    runs = {run["run_id"]: run["unusual"] for run in site.ask("/api/v1/runs").json["runs"]}
    now = site.ask("/api/v1/now").json
    pages = [site.ask(path).text for path in ("/runs", "/now")]

    assert "cost $3.58" in runs[dear]
    told = "1,404 visits of ask; 95 % of such runs visit it at most once"
    assert runs[looping] == told
    assert runs[usual] is runs[fresh] is runs[ended.run_id] is None
    assert [run["run_id"] for run in now["unusual"]] == [dear, looping]
    assert all("unusual" in page and told in page for page in pages)


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


def test_a_node_visited_ten_times_as_often_as_usual_is_not_marked_yet(
    engine: Engine, site: ServedSite
) -> None:
    for _ in range(5):
        ended = engine.finish(ASKS, answers={"ask": ["x"]})
        engine.redis.hset(run_key("run", ended.run_id), mapping={"step": "9", "n:ask": "4"})
    often, oftener = (engine.finish(ASKS).run_id for _ in range(2))
    for run_id, visits in ((often, "40"), (oftener, "41")):
        engine.redis.hset(run_key("run", run_id), mapping={"step": visits, "n:ask": visits})

    runs = {run["run_id"]: run["unusual"] for run in site.ask("/api/v1/runs").json["runs"]}

    assert runs[often] is None
    assert runs[oftener] == "41 visits of ask; 95 % of such runs visit it at most 4 times"


def test_a_run_open_for_longer_than_99_of_100_is_marked(engine: Engine, site: ServedSite) -> None:
    for number in range(100):
        run = a_run(new_run_id())
        engine.store.runs.submit(run)
        begin(engine, "1/s", run_id=run.run_id)
        engine.clock.move(200 if number == 0 else 90 if number < 10 else 1)
        engine.store.runs.close(run.run_id, "failed", Failure("R001", "it failed", "s"))
    slow, usual = a_run(new_run_id()), a_run(new_run_id())
    for run, seconds in ((slow, 60), (usual, 80)):
        engine.store.runs.submit(run)
        begin(engine, "1/s", run_id=run.run_id)
        engine.clock.move(seconds)

    now = site.ask("/api/v1/now").json

    assert [(run["run_id"], run["unusual"]) for run in now["unusual"]] == [
        (slow.run_id, "open for 2m; 99 % of such runs take at most 1m")
    ]


def test_a_batch_of_whose_ended_runs_many_failed_is_told(engine: Engine, site: ServedSite) -> None:
    for name, failed in (("bad", 2), ("good", 1)):
        for number in range(21):
            run = a_run(new_run_id(), batch=name)
            engine.store.runs.submit(run)
            status = "failed" if number < failed else "cancelled"
            if number < 20:
                engine.store.runs.close(run.run_id, status, Failure("R001", "it failed", "s"))

    now = site.ask("/api/v1/now").json
    page = " ".join(site.ask("/now").text.split())

    assert now["failing_batches"] == [{"batch": "bad", "failed": 2, "ended": 20}]
    assert "10 % of its runs that ended failed" in page


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
