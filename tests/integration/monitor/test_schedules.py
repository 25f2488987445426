"""Schedules by the API and on their pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite

GRAPH = """
start: done
variables: [{name: token, description: d, secret: true}]
nodes: {done: {type: end, output: "{{initial_prompt}}"}}
"""
API = "/api/v1/schedules"


@pytest.fixture(autouse=True)
def agent(engine: Engine) -> Iterator[None]:
    engine.write("digest", GRAPH)
    yield
    for schedule in engine.client.schedules.list():
        engine.client.schedules.delete(schedule.name)


def send(site: ServedSite, path: str, method: str = "POST", **body: Any) -> Any:
    return site.ask(path, method, body=json.dumps(body))


def make(site: ServedSite, name: str = "news", **fields: Any) -> Any:
    given = {"agent": "digest", "every": "1h", "vars": {"token": "hunter2"}, **fields}
    return send(site, API, name=name, **given)


def test_a_schedule_from_its_beginning_to_its_end(engine: Engine, site: ServedSite) -> None:
    made = make(site, labels={"team": "a"}, overlap="allow-all")
    changed = send(site, f"{API}/news", "PATCH", prompt="Ada", labels={}, jitter="5s")
    paused = send(site, f"{API}/news/pause", reason="holidays")
    resumed = send(site, f"{API}/news/resume")
    triggered = send(site, f"{API}/news/trigger")
    engine.clock.move(86_400)
    filled = send(site, f"{API}/news/backfill", **{"from": "3h", "to": "1m"})
    shown = site.ask(f"{API}/news")
    removed = site.ask(f"{API}/news", "DELETE")

    assert (made.status, made.json["every"], made.json["vars"]) == (201, "1h", {"token": "***"})
    assert (changed.status, changed.json["prompt"], changed.json["labels"]) == (200, "Ada", {})
    assert (paused.json["paused"], paused.json["next_at"]) == ("holidays", [])
    assert resumed.json["paused"] is None
    assert engine.run(triggered.json["run_id"]).labels["schedule"] == "news"
    assert (filled.status, len(filled.json["started"])) == (202, 3)
    assert (shown.json["fired"], shown.json["files_changed"]) == (4, False)
    assert "hunter2" not in made.text + changed.text + shown.text
    assert (removed.status, site.ask(API).json) == (200, {"schedules": []})
    acts = [act["act"] for act in site.ask("/api/v1/audit").json["acts"]]
    assert acts == [
        f"schedule {act}"
        for act in ("delete", "backfill", "trigger", "resume", "pause", "edit", "create")
    ]


def test_what_is_refused_says_why(site: ServedSite) -> None:
    make(site)
    taken = make(site)
    refused = [
        make(site, "other", every="often"),
        send(site, f"{API}/other/pause"),
        site.ask(f"{API}/other"),
        send(site, f"{API}/news", "PATCH", wen=1),
    ]

    assert (taken.status, taken.json["error"]["code"]) == (409, "refused")
    assert "change it with `sleipnir schedule edit news`" in taken.json["error"]["message"]
    assert [each.status for each in refused] == [422, 404, 404, 422]


def test_remote_users_do_not_choose_which_files_are_run(engine: Engine, site: ServedSite) -> None:
    make(site)
    path = str(engine.agents_directory / "digest")

    made = make(site, "other", agent=path)
    changed = send(site, f"{API}/news", "PATCH", agent="./digest")

    assert (made.status, changed.status) == (422, 422)
    assert "submits agents by their names" in made.text


def test_pages_show_and_change_it(engine: Engine, site: ServedSite) -> None:
    make(site, "a", prompt="<script>alert(1)</script>")
    listed, page = site.ask("/schedules"), site.ask("/schedules/a")
    token = page.text.partition('name="_token" value="')[2].partition('"')[0]
    headers = {"Authorization": f"Bearer {KEY}", "Origin": f"http://127.0.0.1:{site.port}"}

    def act(deed: str, **fields: str) -> Any:
        form = {"_token": token, **fields}
        return site.ask(f"/schedules/a/{deed}", "POST", form=form, headers=headers)

    assert 'href="/schedules/a"' in listed.text
    assert "<script>alert" not in page.text
    assert act("pause", reason="holidays").status == 303
    assert "holidays" in site.ask("/schedules/a").text
    assert act("trigger").headers["Location"].startswith("/runs/")
    assert act("trigger").status == 409  # its run is open
    assert act("delete").headers["Location"] == "/schedules"
    assert engine.client.schedules.list() == []
