"""Pages offer each role what the server takes from it, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

from sleipnir.scheduler.config.monitor_users import ROLES, MonitorUsers, new_line
from sleipnir.scheduler.runs.hooks.model import ENDS, Hook
from sleipnir.scheduler.runs.inbound.triggers import Trigger
from sleipnir.scheduler.store.hooks.records import Attempt
from sleipnir.scheduler.store.hooks.triggers import Triggers
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.worker.monitor.access import Access, Role
from sleipnir.worker.monitor.routes import ROUTES, SiteRoute
from tests.support.engine import Engine
from tests.support.evaluations import run_rows, table, write_sorter
from tests.support.site import ServedSite, is_page
from tests.support.users import basic

ASKS = """
start: ask
nodes:
  ask: {type: approval, question: "Go on?", options: [a, b], routes: {a: z, b: z}, on_other: z}
  z: {type: end}
"""
FAILS = """
settings: {tolerate_failures: false}
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""
MAPS = """
initial_state: {words: [a, b]}
start: each
nodes:
  each: {type: map, over: "{{words}}", as: word, branch: s, collect_into: found, next: z}
  s: {type: script, script: s.sh}
  z: {type: end}
"""


class Control(NamedTuple):
    """Something that a page lets its reader do."""

    method: str
    path: str
    is_enabled: bool


class Controls(HTMLParser):
    """What a page offers: its links, and its forms with whether a button can be pressed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[Control] = []
        self._page = page
        self._form: tuple[str, str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self._add("GET", given["href"], is_enabled=True)
        elif tag == "form":
            self._form = (given.get("method") or "get").upper(), given.get("action") or ""
        elif tag == "button" and self._form is not None and given.get("type") != "button":
            self._add(*self._form, is_enabled="disabled" not in given)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None

    def _add(self, method: str, address: str | None, *, is_enabled: bool) -> None:
        path = (address or "").partition("#")[0].partition("?")[0] or self._page
        self.found.append(Control(method, path, is_enabled))


def routes_of(control: Control) -> Iterator[SiteRoute]:
    """The first route that fits, as Tornado chooses; none for Flower's pages and other sites."""
    fitting = (route for route in ROUTES if re.fullmatch(route.pattern, control.path))
    first = next(fitting, None)
    if first is not None:
        yield first


@pytest.fixture
def users(tmp_path: Path) -> MonitorUsers:
    """Somebody of each role."""
    file = tmp_path / "users"
    file.write_text("\n".join(new_line(role, role, "secret") for role in ROLES))
    return MonitorUsers(file)


def walk(site: ServedSite, role: str, first: set[str]) -> set[Control]:
    """What all pages offer that can be reached, each looked at once without its filters."""
    known, found, offers = set[str](), set(first), set[Control]()
    while new := found - known:
        path = new.pop()
        known.add(path)
        answer = site.ask(path, headers=basic(role, "secret") | {"Accept": "text/html"})
        if "Location" in answer.headers:
            found.add(answer.headers["Location"].partition("?")[0])
        if not answer.headers.get("Content-Type", "").startswith("text/html"):
            continue
        page = Controls(path)
        page.feed(answer.text)
        offers |= set(page.found)
        found |= {each.path for each in page.found if each.method == "GET" and any(routes_of(each))}
    return offers


def test_each_role_is_offered_what_it_may_do(engine: Engine, users: MonitorUsers) -> None:
    engine.finish(FAILS, {"s.sh": "exit 3"}, batch="b")
    engine.finish(ASKS)
    engine.finish(MAPS, {"s.sh": "exit 0"})
    engine.client.schedules.create("nightly", {"agent": "tested", "every": "1d"})
    for name, enabled in (("ops", True), ("off", False)):
        hook = Hook(name, "https://ops.example", ENDS, disabled=None if enabled else "for now")
        engine.store.hooks.put(hook, None)
    tried = Attempt("evt_1", "run.failed", {"run": "0" * 16}, 1, 1, 1, 500, 7, "the reply is 500")
    engine.store.deliveries.note("ops", tried)
    for each in (Trigger("orders", "tested"), Trigger("open", "tested", "none")):
        Triggers(engine.store).put(each, None)
    engine.client.schedules.create("hourly", {"agent": "tested", "every": "1h", "paused": True})

    write_sorter(engine, "one", table(2))
    run_rows(engine)

    with ServedSite(engine.client, Access(users=users)) as site:
        offered = {}
        for role in ROLES:
            working = WorkerState("desk", 7, slots=8, busy=0, taken=9, idle_s=3, memory_bytes=1)
            Machines(engine.redis).announce(working, with_queue=True)  # or it counts as lost
            offered[role] = walk(site, role, {"/now", "/compare", "/agents/tested?tab=start"})

    for name in ("nightly", "hourly"):
        engine.client.schedules.delete(name)
    for name in ("ops", "off"):
        engine.client.hooks.delete(name)
    for name in ("orders", "open"):
        engine.client.triggers.delete(name)
    for role, offers in offered.items():
        enabled = [each for each in offers if each.is_enabled]
        needs = {each: next(routes_of(each), None) for each in enabled}
        refused = {
            each
            for each, route in needs.items()
            if route and (route.needs.get(each.method) or Role.NONE) > Role[role.upper()]
        }
        assert refused == set(), role

        acts = {
            (route.path, method)
            for route in ROUTES
            for method, needed in route.needs.items()
            if method == "POST" and (needed or 0) <= Role[role.upper()]
            if not route.path.startswith(("/api/", "/v1/", "/mcp"))
        }
        can_do = {(route.path, each.method) for each, route in needs.items() if route}
        of_anybody = {
            (path, "POST") for path in ("/sign-in", "/sign-out", "/a/{token}", "/hooks/{name}")
        }
        assert acts - can_do <= {("/fleet/task-events/{switch}", "POST"), *of_anybody}, role

    linked = {route.path for each in offered["operate"] for route in routes_of(each)}
    pages = {route.path for route in ROUTES if is_page(route)}
    assert pages - linked == set()
