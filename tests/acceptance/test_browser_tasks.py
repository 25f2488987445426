"""Ten tasks of somebody who looks after runs, each from the first page in a few clicks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.machines import WorkerState
from sleipnir.worker.monitor.formats import span
from tests.support.browser import Person
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Reply, fails, says
from tests.support.silent_workers import fall_silent
from tests.support.site import ServedSite

_NAME_PX = """() => {
  const name = document.querySelector("svg.graph .name");
  return parseFloat(getComputedStyle(name).fontSize) * name.getScreenCTM().a;
}"""
_SIZE = {"width": 1440, "height": 900}
ALIKE = 50
ITEMS = 40
SILENT_S = 30
REFUSED = 17  # an item

REFUND = """
start: review
nodes:
  review: {type: approval, question: "Refund {{initial_prompt}}?", options: [refund, decline],
           routes: {refund: pay, decline: z}, on_other: ask, state_updates: {said: "{{choice}}"}}
  pay: {type: set, values: {paid: "true"}, next: z}
  ask: {type: set, values: {asked: "true"}, next: z}
  z: {type: end, output: "{{said}}"}
"""
LEADS = """
settings: {tolerate_failures: false}
start: load
nodes:
  load: {type: script, script: load.sh, max_attempts: 1, next: z}
  z: {type: end, output: "scored"}
"""
TAGS = f"""
model: openai:gpt-4o-mini
initial_state: {{words: [{", ".join(f"word-{n}" for n in range(ITEMS))}]}}
start: each
nodes:
  each: {{type: map, over: "{{{{words}}}}", as: word, branch: tag, collect_into: tags,
         on_error: collect, next: z}}
  tag: {{type: llm, prompt: "Tag {{{{word}}}}.", max_attempts: 1}}
  z: {{type: end, output: "tagged"}}
"""
WATCHER = """
settings: {max_loop_iterations: 1000}
start: look
nodes:
  look: {type: script, script: look.sh, next: z}
  z: {type: end}
"""
BROKEN = {"load.sh": "echo \"KeyError: 'amount'\" >&2; exit 3"}
MENDED = {"load.sh": "echo '{}'"}
ONCE = {"look.sh": "echo '{}'"}
ALWAYS = {"look.sh": 'echo \'{"_next": "look"}\''}


class Clicks:
    """Counts what a person clicks, from the first page on."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self.page = person.page
        self.made = 0

    def start(self) -> Any:
        """Open the first page."""
        self.made = 0
        self.page.goto(f"{self._person.origin}/now")
        return self.page

    def click(self, target: Any) -> None:
        """Click what the page shows."""
        target.click()
        self.made += 1


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Refuses to tag one word."""

    def tag(request: Any) -> Reply:
        if f"word-{REFUSED}." in request.text:
            return fails(400, "maximum context length is 8 tokens")
        return says("noun", prompt_tokens=900_000, completion_tokens=10)

    with ModelServer() as started:
        started.when("Tag", tag)
        monkeypatch.setenv("OPENAI_BASE_URL", started.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield started


@pytest.fixture
def runs(engine: Engine, models: ModelServer) -> dict[str, str]:
    """A day of runs: the ids of those that matter, by what they are."""
    for number in range(ALIKE):
        engine.submit_agent("refunds", REFUND, prompt=f"order {number}")
    engine.drive()
    good = engine.submit_agent("etl", LEADS, MENDED, prompt="day 1")
    engine.store.batches.announce("leads", "lead-scoring", 12)
    for number in range(8):
        files = BROKEN if number % 4 == 0 else MENDED
        engine.submit_agent("lead-scoring", LEADS, files, batch="leads", item=f"lead-{number}")
        engine.drive()
        engine.clock.move(1)
    tagged = engine.submit_agent("tagger", TAGS)
    for _ in range(6):
        engine.submit_agent("watcher", WATCHER, ONCE)
    engine.drive()
    failed = engine.submit_agent("etl", LEADS, BROKEN, prompt="day 2")
    engine.drive()
    engine.write("etl", LEADS, MENDED)
    runaway = engine.submit_agent("watcher", WATCHER, ALWAYS)
    for _ in range(80):
        engine.work_once()
    engine.submit_agent("lead-scoring", LEADS, MENDED, batch="leads", item="lead-9")
    _lose_a_worker(engine)
    return {"good": good, "tagged": tagged, "failed": failed, "runaway": runaway}


def _lose_a_worker(engine: Engine) -> None:
    worker = WorkerState("beta", 20044, slots=8, busy=2, taken=9, idle_s=1, memory_bytes=2**27)
    fall_silent(engine.redis, worker, SILENT_S)


def test_ten_tasks_take_a_few_clicks_each(
    engine: Engine, browser: Any, runs: dict[str, str]
) -> None:
    with ServedSite(engine.client) as site:
        person = Person(browser, site, viewport=_SIZE)
        clicks = Clicks(person)

        left_s = site.ask("/api/v1/now").json["batches"][0]["eta_s"]
        _first_page_tells(clicks, span(left_s))
        _cause_of_a_batch(clicks)
        _failed_item(clicks, runs)
        _answer_alike(clicks, engine)
        _who_answered(clicks)
        _cancel_the_runaway(clicks, engine, runs)
        _compare(clicks, runs)
        _retry_mended(clicks, engine, runs)
        _dearest_agent(clicks)
        _run_page_opens_on_its_graph(clicks, runs)

        assert person.complaints.all == []
        person.context.close()


def _first_page_tells(clicks: Clicks, left: str) -> None:
    page = clicks.start()
    told = " ".join(page.locator("main").inner_text().split())
    assert "8 of 12" in told
    assert left in told  # until the batch has ended
    assert "1 lost in 24 h" in told
    assert clicks.made == 0


def _cause_of_a_batch(clicks: Clicks) -> None:
    page = clicks.start()
    clicks.click(page.get_by_role("link", name="leads", exact=True).first)
    page.get_by_role("region", name="Failures").get_by_text("KeyError: 'amount'").wait_for()
    assert clicks.made <= 2


def _failed_item(clicks: Clicks, runs: dict[str, str]) -> None:
    page = clicks.start()
    clicks.click(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Runs"))
    clicks.click(page.locator(f'[data-row="{runs["tagged"]}"] a').first)
    clicks.click(page.get_by_role("link", name=f"Items {ITEMS}"))
    clicks.click(page.get_by_role("link", name=f"item {REFUSED}"))
    item = page.get_by_role("complementary", name="Item")
    item.get_by_text(f"Tag word-{REFUSED}.").first.wait_for()
    item.get_by_text("maximum context length is 8 tokens").first.wait_for()
    assert clicks.made <= 4


def _answer_alike(clicks: Clicks, engine: Engine) -> None:
    page = clicks.start()
    clicks.click(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Inbox"))
    assert page.locator("[name=question]:checked").count() == 0
    clicks.click(page.locator("[data-mark-all]"))
    page.get_by_text(f"{ALIKE} of {ALIKE} selected").wait_for()
    clicks.click(page.locator(".alike-answer").get_by_role("button", name="refund"))
    assert clicks.made <= 3
    page.get_by_role("heading", name=f"Answer {ALIKE} questions with “refund”?").wait_for()
    assert "→ pay" in " ".join(page.locator(".confirm").inner_text().split())
    page.get_by_role("textbox", name="Number of questions").fill(str(ALIKE))
    page.get_by_role("button", name=f"Answer {ALIKE} questions with “refund”").click()
    page.get_by_text(f"{ALIKE} answered with refund").wait_for()
    assert engine.queries.count_questions() == 0


def _who_answered(clicks: Clicks) -> None:
    page = clicks.start()
    clicks.click(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Inbox"))
    clicks.click(page.locator('.tabs a[href$="/inbox/answered"]'))
    row = page.get_by_role("row").nth(1)
    row.wait_for()
    assert all(each in row.inner_text() for each in ("refund", "operator", "page", "refunds"))
    assert "Refund order" in row.inner_text()
    assert clicks.made <= 2


def _cancel_the_runaway(clicks: Clicks, engine: Engine, runs: dict[str, str]) -> None:
    page = clicks.start()
    unusual = page.locator("li", has_text="unusual")
    clicks.click(unusual.get_by_role("link").first)
    clicks.click(page.get_by_role("link", name="Cancel…"))
    assert clicks.made <= 2
    page.get_by_role("button", name="Cancel the run").click()
    page.locator("main .state-cancelled").first.wait_for()
    assert engine.run(runs["runaway"]).status == Status.CANCELLED


def _compare(clicks: Clicks, runs: dict[str, str]) -> None:
    page = clicks.start()
    clicks.click(page.locator(f'a[href$="/runs/{runs["failed"]}"]').first)
    clicks.click(page.get_by_role("link", name="Compare with the last good run"))
    page.wait_for_url(f"**/compare?a={runs['good']}&b={runs['failed']}")
    page.get_by_text("KeyError: 'amount'").first.wait_for()
    assert clicks.made <= 2


def _retry_mended(clicks: Clicks, engine: Engine, runs: dict[str, str]) -> None:
    page = clicks.start()
    clicks.click(page.locator(f'a[href$="/runs/{runs["failed"]}"]').first)
    clicks.click(page.get_by_role("link", name="Retry"))
    clicks.click(page.get_by_role("button", name="Retry with"))
    page.wait_for_url(f"**/runs/{runs['failed']}*")
    assert clicks.made <= 3
    engine.drive()
    assert engine.run(runs["failed"]).status == Status.SUCCEEDED


def _dearest_agent(clicks: Clicks) -> None:
    page = clicks.start()
    clicks.click(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Costs"))
    dearest = page.get_by_role("region", name="Spending by agent").locator("tbody tr").first
    assert "tagger" in dearest.inner_text()
    assert clicks.made <= 1


def _run_page_opens_on_its_graph(clicks: Clicks, runs: dict[str, str]) -> None:
    page = clicks.page
    page.goto(f"{page.url.split('/costs')[0]}/runs/{runs['tagged']}/graph")
    page.locator("svg.graph").wait_for()
    assert page.locator(".canvas").bounding_box()["y"] <= 320
    assert page.evaluate(_NAME_PX) >= 12
