"""The monitor's pages below a prefix, as behind a proxy that serves other sites too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sleipnir.worker.monitor.admission.tickets import Tickets
from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite

PREFIX = "/ops/sleipnir"
GRAPH = """
settings: {tolerate_failures: false}
start: each
nodes:
  each: {type: map, over: "{{items}}", branch: one, as: item, collect_into: out, next: ask}
  one: {type: script, script: one.sh}
  ask: {type: approval, question: "Go on?", options: [a, b], routes: {a: z, b: z}, on_other: z}
  z: {type: end}
"""
FILES = {"one.sh": "echo '{\"output\": 1}'"}
ADDRESS = re.compile(r'\b(?:href|src|action|data-hub)="([^"#]*)')


@pytest.fixture
def site(engine: Engine) -> Iterator[ServedSite]:
    with ServedSite(engine.client, prefix=PREFIX) as served:
        yield served


def test_every_address_of_every_page_lies_below_the_prefix(
    engine: Engine, site: ServedSite
) -> None:
    run_id = engine.finish(GRAPH, FILES, state={"items": [1, 2]}, batch="b").run_id
    known, found = set[str](), {f"{PREFIX}/", f"{PREFIX}/runs/{run_id}/items"}
    wrong = {}

    while new := found - known:
        address = new.pop()
        known.add(address)
        answer = site.ask(address.replace("&amp;", "&"))
        # 405: it is where a form is sent.
        if answer.status not in (200, 302, 405):
            wrong[address] = answer.status
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            page = address.partition("?")[0]
            links = (link or page for link in ADDRESS.findall(answer.text))
            found |= {page + link if link.startswith("?") else link for link in links}
        found |= {answer.headers["Location"]} if "Location" in answer.headers else set()
        # Every combination of filters is more than it takes.
        found = {link for link in found if link.count("&amp;") < 1}

    outside = {link for link in known if not link.startswith((f"{PREFIX}/", "data:"))}
    assert outside == set()
    # Flower's pages are not served here.
    assert {link.removeprefix(PREFIX) for link in wrong} <= {"/workers", "/tasks", "/broker"}
    assert any(link.startswith(f"{PREFIX}/inbox/{run_id}/") for link in known)
    assert len(known) > 30


def test_what_is_done_leads_on_below_the_prefix(engine: Engine, site: ServedSite) -> None:
    run_id = engine.finish(GRAPH, FILES, state={"items": [1]}).run_id

    question = site.ask(f"{PREFIX}/api/v1/questions").json["questions"][0]["question_id"]

    entered = site.ask(f"{PREFIX}?key={KEY}", headers={})
    answered = site.ask(f"{PREFIX}/inbox/{question}", "POST", form={"answer": "a"})
    cancelled = site.ask(f"{PREFIX}/runs/{run_id}/cancel", "POST", form={})

    assert f"Path={PREFIX};" in entered.headers["Set-Cookie"] + ";"
    places = [each.headers["Location"] for each in (entered, answered, cancelled)]
    inbox = f"{PREFIX}/inbox?answered={question.replace('/', '%2F')}"
    assert places == [f"{PREFIX}/", inbox, f"{PREFIX}/runs/{run_id}"]
    assert [site.ask(path).status for path in ("/", "/runs", "/assets/x")] == [404] * 3


def test_a_ticket_opens_the_pages_once_and_for_a_minute(engine: Engine, site: ServedSite) -> None:
    ticket = site.site.access.tickets.issue()
    address = f"{PREFIX}/?ticket={ticket}"

    opened = site.ask(address, headers={})
    again = site.ask(address, headers={})

    assert (opened.status, again.status) == (302, 401)
    cookie = opened.headers["Set-Cookie"].partition(";")[0]
    assert site.ask(f"{PREFIX}/runs", headers={"Cookie": cookie}).status == 200
    now = [0.0]
    tickets = Tickets(lambda: now[0])
    late = tickets.issue()
    now[0] += 61
    assert not tickets.redeem(late)
