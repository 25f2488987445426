"""Runs that failed by a mistake in their agent are retried with the mended agent."""

from __future__ import annotations

import json
import re

import pytest

from sleipnir.scheduler.runs.model import Status
from tests.support.engine import Engine
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
    shown = site.ask(path, "POST", form={"agent": "current"})
    untouched = engine.run(failed).tries
    digest = re.search(r'name="digest" value="(\w+)"', shown.text)
    assert digest is not None
    other = site.ask(path, "POST", form={"agent": "current", "digest": "0" * 64})
    retried = site.ask(path, "POST", form={"agent": "current", "digest": digest[1]})
    engine.drive()

    assert 'name="agent" value="current"' in page
    assert old[:12] in shown.text
    assert digest[1][:12] in shown.text
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

    shown = site.ask(f"/runs/{failed}/retry", "POST", form={"agent": "current"}).text
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
