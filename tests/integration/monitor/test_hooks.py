"""Hooks by the API and on their pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.runs.hooks.model import ENDS, Hook
from tests.support.engine import Engine
from tests.support.hooks import hook_key
from tests.support.site import KEY, ServedSite

API = "/api/v1/hooks"
URL = "https://ops.example/in"


@pytest.fixture(autouse=True)
def with_key(engine: Engine, tmp_path: Path) -> Iterator[None]:
    engine.configure(hook_key_file=hook_key(tmp_path))
    yield
    for hook in engine.client.hooks.list():
        engine.store.hooks.remove(hook.name)
    engine.redis.flushall()


def send(site: ServedSite, path: str, method: str = "POST", **body: Any) -> Any:
    return site.ask(path, method, body=json.dumps(body))


def test_a_hook_from_its_beginning_to_its_end(engine: Engine, site: ServedSite) -> None:
    made = send(site, API, name="ops", url=URL, events=["run.failed"])
    chosen = {"agent": "review", "label": {"team": "a"}}
    send(site, f"{API}/ops", "PATCH", filter=chosen)
    changed = send(site, f"{API}/ops", "PATCH", filter={"batch": "nightly"})
    rotated = send(site, f"{API}/ops/rotate")
    tested = send(site, f"{API}/ops/test")
    disabled = send(site, f"{API}/ops/disable")
    unknown = send(site, f"{API}/ops/redeliver", event_id="evt_1")
    tried = site.ask(f"{API}/ops/deliveries")
    removed = site.ask(f"{API}/ops", "DELETE")
    gone = site.ask(f"{API}/ops")

    assert (made.status, made.json["events"]) == (201, ["run.failed"])
    assert made.json["secret"] != rotated.json["secret"]
    assert changed.json["filter"] == {**chosen, "batch": "nightly"}
    assert (tested.status, tested.json["event_id"][:4]) == (202, "evt_")
    assert disabled.json["disabled"] == "disabled by a person"
    assert unknown.status == 409
    assert tried.json == {"deliveries": []}
    assert (removed.json, gone.status) == ({"name": "ops", "deleted": True}, 404)
    acts = [act["act"] for act in site.ask("/api/v1/audit").json["acts"]]
    done = ("delete", "redeliver", "edit", "test", "rotate", "edit", "edit", "create")
    assert acts == [f"hook {act}" for act in done]


def test_a_name_that_is_taken_is_a_conflict(site: ServedSite) -> None:
    send(site, API, name="ops", url=URL)

    taken = send(site, API, name="ops", url=URL)

    assert (taken.status, "a hook 'ops' already" in taken.json["error"]["message"]) == (409, True)


def test_a_url_that_is_not_allowed_is_refused(site: ServedSite) -> None:
    refused = send(site, API, name="ops", url="http://ops.example")

    assert (refused.status, "only https" in refused.json["error"]["message"]) == (422, True)


def test_pages_show_and_change_it(engine: Engine, site: ServedSite) -> None:
    wanted = {"url": f"{URL}?<b>", "filter": {"label": {"team": "a"}}}
    engine.client.hooks.create("ops", wanted)
    listed, page = site.ask("/hooks"), site.ask("/hooks/ops")
    token = page.text.partition('name="_token" value="')[2].partition('"')[0]
    headers = {"Authorization": f"Bearer {KEY}", "Origin": f"http://127.0.0.1:{site.port}"}

    def act(deed: str, **fields: str) -> Any:
        form = {"_token": token, **fields}
        return site.ask(f"/hooks/ops/{deed}", "POST", form=form, headers=headers)

    assert 'href="/hooks/ops"' in listed.text
    assert "<b>" not in page.text.partition("<h2>Definition")[2].partition("</table>")[0]
    assert "team=a" in page.text
    assert page.text.index("/hooks/ops/disable") < page.text.index("<h2>Deliveries")
    assert act("disable").status == 303
    assert "disabled by a person" in site.ask("/hooks/ops").text
    assert act("test").status == 409
    assert act("enable").status == 303
    assert act("redeliver", event_id="evt_1").status == 409
    assert "whsec_" in act("rotate").text
    assert "whsec_" not in site.ask("/hooks/ops").text
    assert act("delete").headers["Location"] == "/hooks"


def test_a_notification_is_tried_there_and_changed_in_its_file(
    engine: Engine, site: ServedSite
) -> None:
    engine.store.hooks.put(Hook("notify.slack.1f", "slack://…", ENDS), None)

    page = site.ask("/hooks/notify.slack.1f").text
    refused = site.ask(f"{API}/notify.slack.1f", "DELETE")
    shown = site.ask(f"{API}/notify.slack.1f")

    assert "/hooks/notify.slack.1f/test" in page
    assert "/hooks/notify.slack.1f/delete" not in page
    assert (refused.status, "config.yaml" in refused.json["error"]["message"]) == (422, True)
    assert shown.json["notification"] is True


def test_pages_make_a_hook_and_change_it(engine: Engine, site: ServedSite) -> None:
    token = site.ask("/hooks").text.partition('name="_token" value="')[2].partition('"')[0]
    headers = {"Authorization": f"Bearer {KEY}", "Origin": f"http://127.0.0.1:{site.port}"}

    def act(path: str, *events: str, **fields: str) -> Any:
        form = [("_token", token), *fields.items(), *(("event", event) for event in events)]
        return site.ask(path, "POST", form=form, headers=headers)

    new = ("/hooks", "batch.finished", "budget.used_up")
    no_label = act(*new, name="ops", url=URL, label="te<am")
    private = act(*new, name="ops", url="http://ops.example")
    made = act(*new, name="ops", url=URL, label="team=a\r\n\r\nkind = b=c")
    again = act(*new, name="ops", url=URL)
    labels = dict(engine.client.hooks.get("ops").labels)
    nothing = act("/hooks/ops/edit", url=URL)
    changed = act("/hooks/ops/edit", "run.failed", url=URL, agent="review")
    hook = engine.client.hooks.get("ops")

    assert [each.status for each in (no_label, private, made, again)] == [422, 422, 201, 409]
    assert "te&lt;am</textarea>" in no_label.text
    assert 'value="http://ops.example"' in private.text
    assert 'value="batch.finished" checked' in private.text
    assert 'value="run.failed" checked' not in private.text
    assert "whsec_" in made.text
    assert labels == {"team": "a", "kind": "b=c"}
    assert (nothing.status, changed.status) == (422, 303)
    assert (hook.events, hook.agent, dict(hook.labels)) == (("run.failed",), "review", {})
    acts = [act["act"] for act in site.ask("/api/v1/audit").json["acts"]]
    assert acts[0] == "hook edit"
