"""Triggers by the API and on their pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine import Engine
from tests.support.hooks import hook_key
from tests.support.site import KEY, Answer, ServedSite

API = "/api/v1/triggers"
BY_KEY = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(autouse=True)
def with_key(engine: Engine, tmp_path: Path) -> Iterator[None]:
    engine.configure(hook_key_file=hook_key(tmp_path))
    yield
    engine.redis.flushall()


def send(site: ServedSite, path: str, method: str = "POST", **body: Any) -> Any:
    return site.ask(path, method, body=json.dumps(body))


def test_a_trigger_from_its_beginning_to_its_end(site: ServedSite) -> None:
    made = send(site, API, name="issues", agent="triage", set={"a": "{{body.a}}"}, header="X-From")
    changed = send(site, f"{API}/issues", "PATCH", batch="inbox", prompt="{{headers.x_from}}")
    rotated = send(site, f"{API}/issues/rotate", keep="1h")
    shown, listed = site.ask(f"{API}/issues"), site.ask(API)
    removed = site.ask(f"{API}/issues", "DELETE")
    gone = site.ask(f"{API}/issues")

    assert (made.status, made.json["set"]) == (201, {"a": "{{body.a}}"})
    assert made.json["secret"] != rotated.json["secret"]
    assert (changed.json["batch"], changed.json["header"]) == ("inbox", ["x-from"])
    assert (shown.json["secrets"], listed.json["triggers"]) == (2, [shown.json])
    assert "secret" not in shown.json
    assert (removed.json, gone.status) == ({"name": "issues", "deleted": True}, 404)
    acts = [(act["act"], act["detail"]) for act in site.ask("/api/v1/audit").json["acts"]]
    assert acts == [
        ("trigger delete", ""),
        ("trigger rotate", "the one before it is good for 1h"),
        ("trigger edit", "batch, prompt"),
        ("trigger create", "triage"),
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"agent": "./here"}, "is a path"),
        ({"verify": "password"}, "verify: Input should be"),
        ({"verify": "none"}, "whoever reaches the monitor"),
        ({"set": {"a": 1}}, "set.a: Input should be a valid string"),
        ({"secret": "mine"}, "secret: Extra inputs"),
    ],
)
def test_what_is_no_trigger_is_refused(
    fields: dict[str, Any], problem: str, site: ServedSite
) -> None:
    refused = send(site, API, **{"name": "issues", "agent": "triage", **fields})

    assert (refused.status, problem in refused.json["error"]["message"]) == (422, True)
    assert site.ask(API).json == {"triggers": []}


def test_a_name_that_is_taken_is_a_conflict(site: ServedSite) -> None:
    send(site, API, name="issues", agent="triage")

    taken = send(site, API, name="issues", agent="triage")

    assert (taken.status, taken.json["error"]["code"]) == (409, "refused")


def test_pages_make_change_and_remove_it(engine: Engine, site: ServedSite) -> None:
    token = site.ask("/triggers").text.partition('name="_token" value="')[2].partition('"')[0]
    headers = BY_KEY | {"Origin": f"http://127.0.0.1:{site.port}"}

    def act(path: str, **fields: str) -> Answer:
        return site.ask(path, "POST", form={"_token": token, **fields}, headers=headers)

    new = {"name": "issues", "agent": "triage", "verify": "bearer", "prompt": "{{body.<b>}}"}
    refused = act("/triggers", **new, set="issue={{body}}")
    made = act("/triggers", **new, set='{"issue": "{{body}}"}', header="X-From, X-To")
    changed = act("/triggers/issues/edit", agent="triage", prompt="a\r\nb", batch="inbox")
    page, rotated = site.ask("/triggers/issues").text, act("/triggers/issues/rotate", keep="0s")
    (trigger,) = engine.client.triggers.list()

    assert (refused.status, "JSON object of templates" in refused.text) == (422, True)
    assert "{{body.&lt;b&gt;}}" in refused.text
    assert (made.status, changed.status, rotated.status) == (201, 303, 200)
    assert len(set(re.findall(r"<code>([\w-]{43})</code>", made.text + rotated.text))) == 2
    assert not re.search(r"<code>[\w-]{43}</code>", page)
    assert (trigger.prompt, trigger.state, trigger.headers) == ("a\nb", {}, ())
    assert (trigger.batch, len(trigger.secrets)) == ("inbox", 1)
    assert 'href="/batches/inbox"' in page
    assert act("/triggers/issues/delete").headers["Location"] == "/triggers"
    assert "No triggers" in site.ask("/triggers").text


def test_what_is_refused_on_a_page_is_not_typed_again(engine: Engine, site: ServedSite) -> None:
    send(site, API, name="issues", agent="triage")
    token = site.ask("/triggers").text.partition('name="_token" value="')[2].partition('"')[0]
    headers = BY_KEY | {"Origin": f"http://127.0.0.1:{site.port}"}

    form = {"_token": token, "agent": "triage", "prompt": "{{state.x}}"}
    refused = site.ask("/triggers/issues/edit", "POST", form=form, headers=headers)

    assert (refused.status, "{{state.x}}</textarea>" in refused.text) == (422, True)
    assert engine.client.triggers.get("issues").prompt == ""


def test_pages_are_text_and_json_as_well(site: ServedSite) -> None:
    send(site, API, name="issues", agent="triage")

    listed = site.ask("/triggers", headers=BY_KEY | {"Accept": "text/plain"})
    shown = site.ask("/triggers/issues", headers=BY_KEY | {"Accept": "text/plain"})

    assert listed.text.splitlines()[1].split() == [
        *("issues", "triage", "standard", "0", "0", "/hooks/issues")
    ]
    assert "POST /hooks/issues on the monitor" in shown.text
    as_json = BY_KEY | {"Accept": "application/json"}
    assert site.ask("/triggers", headers=as_json).json == site.ask(API).json
    assert site.ask("/triggers/issues", headers=as_json).json == site.ask(f"{API}/issues").json


def test_how_it_is_verified_stays(site: ServedSite) -> None:
    send(site, API, name="issues", agent="triage", verify="none", allow_anonymous=True)

    otherwise = send(site, f"{API}/issues", "PATCH", verify="github")
    rotated = send(site, f"{API}/issues/rotate")

    assert (otherwise.status, rotated.status) == (422, 409)
    assert send(site, f"{API}/issues", "PATCH", agent="other").json["agent"] == "other"
