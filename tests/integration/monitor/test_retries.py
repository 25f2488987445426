"""Runs that failed by a mistake in their agent are retried with the mended agent."""

from __future__ import annotations

import json
import re

import pytest

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.views.again import places
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, fails, says
from tests.support.site import ServedSite
from tests.support.wait import wait_until

GRAPH = """
settings: {tolerate_failures: false}
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end, output: "{{output}}"}
"""
BROKEN = {"s.sh": "exit 3"}
MENDED = {"s.sh": 'echo \'{"output": "mended"}\''}


@pytest.fixture
def failed(engine: Engine) -> str:
    """A failed run, whose agent has been mended since."""
    run = engine.finish(GRAPH, BROKEN, batch="b")
    engine.write("tested", GRAPH, MENDED)
    return run.run_id


def test_a_page_shows_both_versions_and_retries_with_the_new_one(
    engine: Engine, site: ServedSite, failed: str
) -> None:
    old = engine.run(failed).digest
    path = f"/runs/{failed}/retry"

    page = site.ask(f"/runs/{failed}").text
    shown = site.ask(path)
    untouched = engine.run(failed).tries
    digest = re.search(r'name="digest" value="(\w+)"', shown.text)
    assert digest is not None
    other = site.ask(path, "POST", form={"agent": "current", "digest": "0" * 64})
    retried = site.ask(path, "POST", form={"agent": "current", "digest": digest[1]})
    engine.drive()

    assert f'href="{path}">Retry' in page
    assert "continues in step 1 and repeats <b>s</b>" in shown.text
    assert f"As submitted <code>{old[:4]}</code>" in shown.text
    assert f"Retry with {digest[1][:4]}</button>" in shown.text
    assert "1 file changed: s.sh" in shown.text
    assert "s.sh: changed" in shown.text
    assert (untouched, digest[1] == old) == (1, False)
    assert (other.status, "now version" in other.text) == (409, True)
    assert retried.status == 303
    run = engine.run(failed)
    assert (run.status, run.output, run.digest) == (Status.SUCCEEDED, "mended", digest[1])


def test_programs_retry_with_the_agent_as_it_is_now(
    engine: Engine, site: ServedSite, failed: str
) -> None:
    old = engine.run(failed).digest
    path = f"/api/v1/runs/{failed}/retry"

    same = site.ask(path, "POST", body="")
    engine.drive()
    wrong = [site.ask(path, "POST", body=body) for body in ('{"agent": "x"}', '{"agents": "same"}')]
    now = site.ask(path, "POST", body='{"agent": "current"}')
    engine.drive()

    assert (same.status, same.json["digest"]) == (202, old)
    assert [answer.status for answer in wrong] == [400, 400]
    assert (now.status, now.json["digest"] != old) == (202, True)
    assert engine.run(failed).output == "mended"


def test_an_agent_that_is_not_valid_is_refused_with_the_reason(
    engine: Engine, site: ServedSite, failed: str
) -> None:
    engine.write("tested", GRAPH.replace("next: z", "next: nowhere"), MENDED)

    shown = site.ask(f"/runs/{failed}/retry").text
    refused = site.ask(f"/api/v1/runs/{failed}/retry", "POST", body='{"agent": "current"}')

    assert "nowhere" in shown
    assert 'name="digest"' not in shown
    assert (refused.status, "nowhere" in refused.json["error"]["message"]) == (422, True)
    assert engine.run(failed).tries == 1


@pytest.mark.parametrize("by_page", [True, False])
def test_a_batch_is_retried_with_the_agent_as_it_is_now(
    by_page: bool, engine: Engine, site: ServedSite, failed: str
) -> None:
    old = engine.run(failed).digest[:12]
    if by_page:
        shown = site.ask("/bulk?batch=b", "POST", form={"all": "retry"}).text
        assert re.search(rf"tested: version <code>\w{{12}}</code> instead of <code>{old}", shown)
        form = {"all": "retry", "confirmed": "1", "agent": "current"}
        bulk_id = site.ask("/bulk?batch=b", "POST", form=form).headers["Location"][-16:]
    else:
        body = {"act": "retry", "ids": [failed], "agent": "current"}
        bulk_id = site.ask("/api/v1/bulk", "POST", body=json.dumps(body)).json["bulk_id"]
    wait_until(lambda: site.ask(f"/api/v1/bulk/{bulk_id}").json["is_over"], "it is over")
    engine.drive()

    assert engine.run(failed).output == "mended"
    (act,) = site.ask("/api/v1/audit?act=retry").json["acts"]
    assert (act["target"], act["detail"]) == (failed, "with the agent as it is now")


SPENDING = """
model: openai:m
settings: {tolerate_failures: false}
start: first
nodes:
  first: {type: llm, prompt: "One.", state_updates: {said: "{{output}}"}, next: second}
  second: {type: llm, prompt: "Two.", max_attempts: 1, next: z}
  z: {type: end, output: "{{said}}"}
"""


def test_a_run_is_repeated_from_a_step_whose_cost_is_known_before(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.script.add(says("a"), fails(400, "no"), says("b"), says("c"))
    run = engine.finish(SPENDING)
    path = f"/runs/{run.run_id}"

    again = site.ask(f"/api/v1{path}/again").json
    shown = site.ask(f"{path}/retry").text
    wrong = site.ask(f"/api/v1{path}/retry", "POST", body='{"from_step": 7}')
    retried = site.ask(f"{path}/retry", "POST", form={"from_step": "1", "agent": "same"})
    engine.drive()
    ended = site.ask(f"{path}/retry").text

    places = [(each["step"], each["nodes"]) for each in again["places"]]
    assert places == [(2, ["second"]), (1, ["first"])]
    tokens = [each["spent"]["total_tokens"] for each in again["places"]]
    assert tokens == [0, run.usage.prompt_tokens + run.usage.completion_tokens]
    assert re.search(r"1: first .? ?\?</option>", " ".join(shown.split()))
    assert (wrong.status, retried.status) == (422, 303)
    assert engine.run(run.run_id).output == "b"
    assert "Retry as submitted" not in ended  # it has succeeded
    assert "Retry from this step" in ended
    (act,) = site.ask("/api/v1/audit?act=retry&outcome=done").json["acts"]
    assert act["detail"] == "from step 1"


PRICED = SPENDING.replace("openai:m", "openai:gpt-4o-mini")


@pytest.fixture
def three(engine: Engine, server: ModelServer) -> list[str]:
    """Failed runs of a batch: two at their second step, and one at its first."""
    server.when("One", says("a", prompt_tokens=1_000_000, completion_tokens=0))
    server.when("Two", fails(400, "no"))
    runs = [engine.finish(PRICED, batch="b").run_id for _ in range(2)]
    engine.clock.move(1)
    return [*runs, engine.finish(GRAPH, BROKEN, batch="b").run_id]


def test_many_runs_are_repeated_from_a_step_whose_cost_is_known_before(
    engine: Engine, site: ServedSite, three: list[str]
) -> None:
    again = site.ask("/api/v1/bulk/again?batch=b").json
    shown = " ".join(site.ask("/bulk?batch=b", "POST", form={"all": "retry"}).text.split())
    form = {"all": "retry", "confirmed": "3", "from_step": "2"}
    bulk_id = site.ask("/bulk?batch=b", "POST", form=form).headers["Location"][-16:]
    wait_until(lambda: site.ask(f"/api/v1/bulk/{bulk_id}").json["is_over"], "it is over")

    assert (again["runs"], again["looked_at"], again["stopped"]["cost_usd"]) == (3, 3, 0)
    steps = [(each["step"], sorted(each["nodes"]), each["runs"]) for each in again["steps"]]
    assert steps == [(1, ["first", "s"], 3), (2, ["second"], 2)]
    assert [each["spent"]["cost_usd"] for each in again["steps"]] == [pytest.approx(0.3), 0]
    assert "where each stopped</option>" in shown
    assert "step 1, first, s: 3 runs, $0.30</option>" in shown
    assert "step 2, second: 2 runs</option>" in shown
    assert [engine.run(run_id).tries for run_id in three] == [2, 2, 1]
    acts = site.ask("/api/v1/audit?act=retry").json["acts"]
    assert {act["detail"] for act in acts} == {"from step 2"}
    assert sum("has no step 2" in act["outcome"] for act in acts) == 1


def test_programs_repeat_many_runs_from_a_step(
    engine: Engine, site: ServedSite, three: list[str]
) -> None:
    body = {"act": "retry", "ids": three, "from_step": 1, "agent": "current"}
    begun = site.ask("/api/v1/bulk", "POST", body=json.dumps(body)).json
    wrong = site.ask("/api/v1/bulk", "POST", body=json.dumps({**body, "from_step": 0}))
    wait_until(lambda: site.ask(f"/api/v1/bulk/{begun['bulk_id']}").json["is_over"], "it is over")

    assert wrong.status == 400
    assert site.ask("/api/v1/bulk/again").status == 400, "it takes a condition"
    assert engine.run(three[2]).tries == 2
    details = {act["detail"] for act in site.ask("/api/v1/audit?act=retry").json["acts"]}
    assert details == {"from step 1, with the agent as it is now"}


def test_the_cost_of_very_many_is_estimated(
    engine: Engine, site: ServedSite, three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_MOST_RUNS", 2)

    shown = " ".join(site.ask("/bulk?batch=b", "POST", form={"all": "retry"}).text.split())

    assert "it is estimated from the newest 2." in shown
    assert re.search(r"step 1, [^:]*: 2 runs, ≈ \$0\.2[23]</option>", shown)


def test_runs_that_succeeded_are_only_repeated_from_a_step(
    engine: Engine, site: ServedSite
) -> None:
    done = engine.finish(GRAPH, MENDED).run_id

    shown = site.ask("/bulk", "POST", form={"act": "retry", "run": done}).text

    assert "where each stopped" not in shown
    assert 'value="1">step 1' in " ".join(shown.split())
