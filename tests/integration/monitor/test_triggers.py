"""Triggers by the API and on their pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine import Engine
from tests.support.hooks import hook_key
from tests.support.site import ServedSite

API = "/api/v1/triggers"


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


def test_how_it_is_verified_stays(site: ServedSite) -> None:
    send(site, API, name="issues", agent="triage", verify="none", allow_anonymous=True)

    otherwise = send(site, f"{API}/issues", "PATCH", verify="github")
    rotated = send(site, f"{API}/issues/rotate")

    assert (otherwise.status, rotated.status) == (422, 409)
    assert send(site, f"{API}/issues", "PATCH", agent="other").json["agent"] == "other"
