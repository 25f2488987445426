"""People give names to lists of runs, and have them on every machine."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

from sleipnir.scheduler.config.monitor_users import MonitorUsers
from sleipnir.scheduler.store.people.saved_views import MOST_VIEWS
from sleipnir.worker.monitor.access import Access
from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite

FAILING = "status=failed&agent=lead&sort=cost"


def saved(site: ServedSite, name: str, query: str | None) -> int:
    return site.ask("/api/v1/views", "POST", body=json.dumps({"name": name, "query": query})).status


def test_a_list_is_saved_by_name_and_removed(engine: Engine, site: ServedSite) -> None:
    assert saved(site, "<mine>", f"{FAILING}&cursor=abc&limit=5") == 200
    assert saved(site, "b", "batch=%3Cb%3E") == 200

    (first, second) = site.ask("/api/v1/views").json["views"]
    page = site.ask(f"/runs?{FAILING}").text

    assert first == {"name": "<mine>", "query": FAILING, "path": f"/runs?{FAILING}"}
    assert second["query"] == "batch=%3Cb%3E"
    escaped = FAILING.replace("&", "&amp;")
    assert f'href="/runs?{escaped}" aria-current="true">&lt;mine&gt;</a>' in page
    assert saved(site, "<mine>", None) == 200
    assert [each["name"] for each in site.ask("/api/v1/views").json["views"]] == ["b"]


def test_what_is_no_list_is_not_saved(engine: Engine, site: ServedSite) -> None:
    refused = [("x", "next=http://evil"), ("", "q=a"), ("n" * 61, "q=a"), ("x", "q=" + "a" * 2000)]

    assert {saved(site, name, query) for name, query in refused} <= {400, 422}
    assert [saved(site, f"v{n}", "q=a") for n in range(MOST_VIEWS)] == [200] * MOST_VIEWS
    assert saved(site, "one more", "q=a") == 409
    assert saved(site, "v0", "q=b") == 200


def test_the_form_saves_and_leads_back(engine: Engine, site: ServedSite) -> None:
    token = site.ask("/runs").text.partition('name="_token" value="')[2].partition('"')[0]
    form = {"_token": token, "name": " red ", "query": "agent=a+b&cursor=x"}
    headers = {"Authorization": f"Bearer {KEY}", "Origin": f"http://127.0.0.1:{site.port}"}

    answer = site.ask("/views", "POST", headers=headers, form=form)
    gone = site.ask("/views", "POST", headers=headers, form={**form, "name": "red", "forget": "1"})

    assert (answer.status, answer.headers["Location"]) == (303, "/runs?agent=a+b")
    assert (gone.status, site.ask("/api/v1/views").json["views"]) == (303, [])


def test_everybody_has_views_of_their_own(engine: Engine, users: Path) -> None:
    with ServedSite(engine.client, Access(users=MonitorUsers(users))) as site:
        reader, other = (signed(f"{role}r") for role in ("read", "operate"))
        body = json.dumps({"name": "red", "query": "agent=a"})

        assert site.ask("/api/v1/views", "POST", headers=reader, body=body).status == 200
        assert len(site.ask("/api/v1/views", headers=reader).json["views"]) == 1
        assert site.ask("/api/v1/views", headers=other).json["views"] == []


def signed(name: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:pass:{name}'.encode()).decode()}"}
