"""Acts on many runs: shown first, begun once confirmed, and noted run by run."""

from __future__ import annotations

import json
import re
from typing import Any

from sleipnir.scheduler.runs.model import Status
from tests.support.engine import Engine
from tests.support.site import Answer, ServedSite
from tests.support.wait import wait_until

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
FILES = {"f.sh": "echo \"no '<printer>'\" >&2; exit 3"}


def over(site: ServedSite, bulk_id: str) -> Any:
    def document() -> Any:
        return site.ask(f"/api/v1/bulk/{bulk_id}").json

    wait_until(lambda: document()["is_over"], "the act on many runs is over")
    return document()


def test_marked_runs_are_cancelled_once_that_is_confirmed(engine: Engine, site: ServedSite) -> None:
    open_runs = [engine.finish(ASKS).run_id for _ in range(2)]
    failed = engine.finish(FAILS, FILES).run_id
    other = engine.finish(ASKS).run_id
    marked = [("act", "cancel"), *(("run", run_id) for run_id in (*open_runs, failed))]

    shown = site.ask("/bulk", "POST", form=marked).text
    untouched = engine.run(open_runs[0]).status
    begun = site.ask("/bulk", "POST", form=[*marked, ("confirmed", "3"), ("reason", "a <fair>")])

    assert "Cancel 3 runs?" in shown
    assert "&lt;printer&gt;" in shown
    assert untouched == Status.WAITING
    assert begun.status == 303
    document = over(site, begun.headers["Location"].rpartition("/")[2])
    assert (document["done"], document["refused"], document["problem"]) == (2, 1, None)
    assert [each["message"] for each in document["reasons"]] == ["it had already ended"]
    assert "2 done, 1 refused of 3" in site.ask(begun.headers["Location"]).text
    statuses = [engine.run(run_id).status for run_id in (*open_runs, failed, other)]
    assert statuses == [Status.CANCELLED, Status.CANCELLED, Status.FAILED, Status.WAITING]
    acts = site.ask("/api/v1/audit").json["acts"]
    assert {(act["act"], act["detail"]) for act in acts} == {("cancel", "a <fair>")}
    assert {act["target"]: act["outcome"] for act in acts} == {
        open_runs[0]: "done",
        open_runs[1]: "done",
        failed: "it had already ended",
    }


def test_all_that_match_are_retried(engine: Engine, site: ServedSite) -> None:
    failed = [engine.finish(FAILS, FILES, batch="b").run_id for _ in range(3)]
    other = engine.finish(FAILS, FILES).run_id

    listed = site.ask("/runs?batch=b").text
    shown = site.ask("/bulk?batch=b", "POST", form={"all": "retry"}).text
    begun = site.ask("/bulk?batch=b", "POST", form={"all": "retry", "confirmed": "3"})
    over(site, begun.headers["Location"].rpartition("/")[2])

    assert re.search(r'action="/bulk\?batch=b">', listed)
    assert 'value="retry">Retry all' in listed
    assert "Retry 3 runs?" in shown
    assert {engine.run(run_id).tries for run_id in failed} == {2}
    assert engine.run(other).tries == 1
    assert "Retry all" not in site.ask("/runs").text
    changed = site.ask("/bulk?batch=b", "POST", form={"all": "cancel", "confirmed": "9"})
    assert (changed.status, "3 runs match now, not 9" in changed.text) == (409, True)


def test_more_than_a_hundred_runs_take_their_number(engine: Engine, site: ServedSite) -> None:
    for _ in range(101):
        engine.submit(ASKS, batch="many")
    sure = {"all": "cancel", "confirmed": "101"}

    asked = site.ask("/bulk?batch=many", "POST", form={"all": "cancel"}).text
    wrong = site.ask("/bulk?batch=many", "POST", form=sure | {"typed": "100"})
    begun = site.ask("/bulk?batch=many", "POST", form=sure | {"typed": "101"})

    assert 'name="typed"' in asked
    assert (wrong.status, "Type the number of runs." in wrong.text) == (422, True)
    assert over(site, begun.headers["Location"].rpartition("/")[2])["done"] == 101


def test_programs_act_on_many_runs(engine: Engine, site: ServedSite) -> None:
    runs = [engine.finish(ASKS, batch="b").run_id for _ in range(2)]

    def act(**body: object) -> Answer:
        return site.ask("/api/v1/bulk", "POST", body=json.dumps({"act": "cancel", **body}))

    refused = [
        act(),
        act(ids=["x"]),
        act(ids=runs, filter={"batch": "b"}),
        act(filter={}, expect=2),
        act(filter={"children": True}, expect=2),
        act(filter={"batch": "b"}),
        act(filter={"status": ["happy"]}, expect=2),
        act(filter={"batch": "none"}, expect=0),
        act(filter={"batch": "b"}, expect=3),
    ]
    untouched = [engine.run(run_id).status for run_id in runs]
    begun = act(filter={"batch": "b"}, expect=2)

    assert [answer.status for answer in refused] == [400] * 8 + [409]
    assert refused[-1].json["error"]["details"] == {"found": 2}
    assert untouched == [Status.WAITING] * 2
    assert (begun.status, begun.json["total"]) == (202, 2)
    assert over(site, begun.json["bulk_id"])["done"] == 2
    assert site.ask("/api/v1/bulk/0123456789abcdef").status == 404
    with site.stream(f"bulk:{begun.json['bulk_id']}") as frames:
        event, data = next(frames)
        assert (event, data["done"]) == ("final", 2)


def test_programs_fork_runs_and_read_sums(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(ASKS, answers={"ask": ["7"]}, prompt="one")
    path = f"/api/v1/runs/{run.run_id}/fork"

    forked = site.ask(path, "POST", body='{"step": 0, "prompt": "two"}')
    wrong = [site.ask(path, "POST", body=body) for body in ('{"step": -1}', '{"step": 99}', "[]")]

    assert forked.status == 201
    new = engine.run(forked.json["run_id"])
    assert new.forked_from == (run.run_id, 0)
    assert engine.queries.state(new.run_id)["initial_prompt"] == "two"
    assert [answer.status for answer in wrong] == [400, 422, 400]
    acts = site.ask("/api/v1/audit?act=fork").json["acts"]
    assert [act["outcome"] == "done" for act in acts] == [False, True]
    (sums,) = site.ask("/api/v1/tally").json["agents"]
    assert (sums["agent"], sums["runs"], sums["cost_usd"]) == ("tested", {"succeeded": 1}, 0)
