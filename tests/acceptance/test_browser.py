"""The monitor's pages in a real browser: live, by keyboard, without scripts, with hostile texts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sleipnir.scheduler.store.connection import connect
from tests.support.browser import Person
from tests.support.engine import Clock, Engine
from tests.support.redis_server import RedisServer
from tests.support.site import ServedSite
from tests.support.wait import wait_until

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'"
GRAPH = """
settings: {tolerate_failures: false}
start: review
nodes:
  review:
    type: approval
    question: "Publish {{initial_prompt}}?"
    options: ["yes", "no"]
    routes: {"yes": name, "no": z}
    on_other: z
  name: {type: input, question: "Under which name?", validation: "len(input) >= 5", next: print}
  print: {type: script, script: print.sh, next: z}
  z: {type: end, output: "printed {{initial_prompt}}"}
"""
FILES = {"print.sh": "echo \"$SLEIPNIR_PROMPT <b>loud</b>\" >&2; echo '{}'"}


def test_charts_are_drawn_anew_every_ten_seconds_and_the_rest_at_once(
    engine: Engine, person: Person
) -> None:
    page = person.page
    page.clock.install(time=0)
    page.clock.pause_at(1)  # however long the page takes
    page.goto(f"{person.origin}/now")
    page.locator("[data-live=on]").wait_for(state="attached")
    chart = page.locator('[data-part="charts"] .chart').first

    engine.finish("start: z\nnodes: {z: {type: end}}")
    asking = page.locator('[data-part="tiles"] .tile', has_text="Needs you")
    engine.finish(GRAPH, FILES)
    while "1" not in asking.inner_text():  # the page is told of it soon, and looks by its clock
        page.clock.run_for(20)
        page.wait_for_timeout(40)  # its clock is slow, so that answers come soon by it
    assert chart.count() == 0
    page.clock.run_for(10_000)
    page.clock.run_for(2_000)

    chart.wait_for()


def test_what_is_open_follows_the_run_in_every_tab(
    engine: Engine, site: ServedSite, person: Person
) -> None:
    run_id = engine.finish(GRAPH, FILES).run_id
    graph, runs = person.open(f"/runs/{run_id}"), person.open("/runs")
    tabs = [person.open("/now") for _ in range(7)]
    for tab in (graph, runs, *tabs):
        tab.wait_for_selector("[data-live=on]")
    graph.wait_for_selector('.graph .is-waiting[data-node="review"]')

    engine.client.answer(run_id, "no")
    engine.drive()

    graph.wait_for_selector('.graph .is-done[data-node="z"]')
    graph.wait_for_selector(".run-title .state-succeeded")
    runs.wait_for_selector(f'[data-row="{run_id}"] .state-succeeded')
    engine.finish(GRAPH, FILES)
    runs.wait_for_selector("[data-news]:not([hidden]) a")
    for tab in tabs:
        tab.wait_for_selector("[data-inbox] .count:has-text('1')")
    assert person.complaints.all == []


def test_a_page_says_that_redis_is_away_and_comes_back(
    browser: Any, tmp_path: Path, own_directories: None
) -> None:
    with (
        RedisServer(tmp_path / "redis") as server,
        connect(server.url) as client,
        ServedSite(Engine(client, Clock(), tmp_path).client) as site,
    ):
        engine = Engine(client, Clock(), tmp_path)
        engine.finish(GRAPH, FILES)
        person = Person(browser, site)
        inbox = person.open("/inbox")
        inbox.wait_for_selector("[data-live=on]")

        server.stop()
        inbox.get_by_role("alert").get_by_text("No updates since").wait_for()
        late = person.open("/runs")
        late.get_by_text("Redis cannot serve requests now").first.wait_for()
        assert inbox.locator("[data-live=off]").is_visible()
        assert inbox.locator("[data-row]").count() == 1
        server.start()
        inbox.wait_for_selector("[data-live=on]")
        inbox.wait_for_selector("[data-away]", state="hidden")
        late.get_by_role("heading", name="Runs").wait_for()
        engine.finish(GRAPH, FILES)
        inbox.wait_for_selector("[data-inbox] .count:has-text('2')")
        person.context.close()


def test_pages_below_a_prefix_are_live_too(engine: Engine, browser: Any) -> None:
    run_id = engine.finish(GRAPH, FILES).run_id

    with ServedSite(engine.client, prefix="/ops/sleipnir") as site:
        visitor = Person(browser, site)
        page = visitor.open(f"/inbox/{run_id}/1/review")
        page.get_by_role("button", name="no").click()
        page.wait_for_url("**/ops/sleipnir/inbox?answered=*")
        page = visitor.open(f"/runs/{run_id}")
        page.wait_for_selector("[data-live=on]")
        engine.drive()
        page.wait_for_selector(".run-title .state-succeeded")
        complaints = visitor.complaints.all
        visitor.context.close()

    assert complaints == []


def test_questions_are_answered_by_two_people_and_without_scripts(
    engine: Engine, site: ServedSite, browser: Any, person: Person
) -> None:
    run_id = engine.finish(GRAPH, FILES).run_id
    late = Person(browser, site, java_script_enabled=False)
    first, second = (each.open(f"/inbox/{run_id}/1/review") for each in (person, late))

    first.locator("button kbd").first.wait_for()
    first.keyboard.press("1")  # the first option
    first.wait_for_url("**/inbox?answered=*")
    first.get_by_text("yes was sent.").wait_for()
    second.get_by_role("button", name="no").click()
    second.get_by_text("this question was answered by operator").wait_for()
    engine.drive()
    second.goto(f"{late.origin}/inbox/{run_id}/2/name")
    second.get_by_role("textbox", name="Your answer").fill("Ada")
    second.get_by_role("button", name="Answer").click()
    second.get_by_text("does not satisfy").wait_for()
    second.go_back()
    assert second.get_by_role("textbox", name="Your answer").input_value() == "Ada"
    second.go_forward()
    second.reload()
    second.get_by_text("does not satisfy").wait_for()
    assert second.get_by_role("textbox", name="Your answer").input_value() == "Ada"
    second.get_by_role("textbox", name="Your answer").fill("Ada Lovelace")
    second.get_by_role("button", name="Answer").click()
    second.wait_for_url("**/inbox?answered=*")
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    second.goto(f"{late.origin}/runs/{run_id}/graph")
    assert second.locator(".graph .is-done").count() == 4
    late.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_of_others_stay_texts_on_every_page(
    engine: Engine, site: ServedSite, browser: Any, scheme: str
) -> None:
    waiting = engine.finish(GRAPH, FILES, prompt=HOSTILE, batch=HOSTILE).run_id
    run_id = engine.finish(
        GRAPH, FILES, prompt=HOSTILE, batch=HOSTILE, answers={"review": ["yes"], "name": [HOSTILE]}
    ).run_id
    narrow = Person(browser, site, color_scheme=scheme, viewport={"width": 320, "height": 640})
    tabs = ("graph", "timeline", "state", "events", "logs", "model", "items", "children")
    pages = ("/now", "/runs", "/inbox", "/batches", "/limits", "/fleet", "/audit")
    paths = [f"/runs/{run_id}/{tab}" for tab in tabs] + [f"/inbox/{waiting}/1/review", *pages]

    wide = []
    for path in paths:
        narrow.page.goto(f"{narrow.origin}{path}")
        narrow.page.locator("main h1").first.wait_for()
        width = narrow.page.evaluate("document.documentElement.scrollWidth")
        wide += [(path, width)] if width > 320 else []

    assert wide == []
    assert narrow.complaints.all == []
    narrow.context.close()


def test_a_page_says_that_its_reader_is_signed_out(
    engine: Engine, site: ServedSite, person: Person
) -> None:
    page = person.open("/runs")
    page.locator("[data-live=on]").wait_for()

    person.context.clear_cookies()
    engine.finish(GRAPH, FILES)

    page.get_by_role("link", name="Sign in again").wait_for()
    assert page.locator("[data-live=off]").is_visible()


def test_times_are_of_the_reader_s_zone_which_is_named(
    engine: Engine, site: ServedSite, browser: Any
) -> None:
    run_id = engine.finish(GRAPH, FILES).run_id
    reader = Person(browser, site, timezone_id="Asia/Kolkata", locale="en-US")
    created = datetime.fromtimestamp(engine.run(run_id).created_at / 1000, UTC)
    there = created.astimezone(ZoneInfo("Asia/Kolkata"))

    page = reader.open(f"/runs/{run_id}")
    texts = page.locator(".run-meta time").first
    recent = page.evaluate(
        """async (module) => {
            const { timeText } = await import(module);
            const now = new Date("2026-03-05T12:00:00Z");
            const at = (text) => timeText(new Date(text), now);
            const recent = ["2026-03-05T11:48:10Z", "2026-03-05T14:00:00Z"];
            return [...recent, "2026-02-03T20:30:00Z"].map(at);
        }""",
        page.locator("script[src*='monitor.js']").get_attribute("src").replace("monitor", "times"),
    )

    assert texts.inner_text() == f"{there.day} {there:%b %Y %H:%M}"
    assert "GMT+5:30" in texts.get_attribute("title")
    assert "Asia/Calcutta (GMT+5:30)" in page.locator("[data-zone]").inner_text()
    assert recent == ["11 min ago", "in 2 h", "4 Feb 02:00"]
    reader.context.close()


class Held:
    """Requests of a page that are held until they may go on."""

    def __init__(self, page: Any, pattern: str) -> None:
        self._routes: list[Any] | None = []
        page.route(pattern, self._hold)

    def _hold(self, route: Any) -> None:
        if self._routes is None:
            route.continue_()
        else:
            self._routes.append(route)

    def release(self) -> None:
        routes, self._routes = self._routes or [], None
        for route in routes:
            route.continue_()


def test_keys_count_before_the_scripts_of_a_page_are_ready(
    engine: Engine, site: ServedSite, person: Person
) -> None:
    run_id = engine.finish(GRAPH, FILES, answers={"review": ["no"]}).run_id
    page = person.context.new_page()
    scripts = Held(page, "**/keys.js")

    page.goto(f"{person.origin}/runs", wait_until="commit")
    page.locator(".search button").wait_for()
    for key in ("/", *run_id[:8]):
        page.keyboard.press(key)
    scripts.release()

    # No `wait_for_function`: it evaluates texts, which the pages' security policy may refuse.
    search = page.locator(".find input")
    wait_until(lambda: search.input_value() == run_id[:8], "the field has the keys")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run_id}")
    assert person.complaints.all == []


def test_keys_count_while_the_next_page_is_on_its_way(
    engine: Engine, site: ServedSite, person: Person
) -> None:
    run_id = engine.finish(GRAPH, FILES, answers={"review": ["no"]}).run_id
    page = person.open("/now")
    runs = Held(page, "**/runs")

    for key in ("g", "r", "/", *run_id[:8], "Enter"):
        page.keyboard.press(key)
    assert page.url.endswith("/now")
    runs.release()

    # No `wait_for_url`: it fails if the page that was on its way is given up meanwhile.
    page.locator(".run-title").wait_for()
    assert page.url.endswith(f"/runs/{run_id}")
    assert person.complaints.all == []


def test_a_keyboard_is_enough_and_the_address_holds_the_view(
    engine: Engine, site: ServedSite, person: Person
) -> None:
    run_id = engine.finish(GRAPH, FILES, answers={"review": ["no"]}).run_id
    page = person.open("/runs")

    page.keyboard.press("/")
    page.keyboard.type(run_id[:8])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run_id}")
    page.get_by_role("link", name="Graph").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run_id}/graph")
    page.locator('.graph a.node[data-node="review"]').focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**?node=review")
    page.get_by_role("heading", name="review").wait_for()
    page.reload()
    page.get_by_role("heading", name="review").wait_for()
    page.go_back()
    page.wait_for_url(f"**/runs/{run_id}/graph")

    assert person.complaints.all == []
