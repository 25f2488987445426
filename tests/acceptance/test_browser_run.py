"""A run's page shows what it is about at once, asks before it acts, and zooms into its time."""

from __future__ import annotations

from typing import Any

from tests.support.browser import Person
from tests.support.engine import Engine
from tests.support.site import ServedSite

GRAPH = """
settings: {tolerate_failures: false}
start: read
nodes:
  read: {type: script, script: read.sh, next: work}
  work: {type: script, script: work.sh, next: z}
  z: {type: end, output: done}
"""
READ = "echo '{}'"
LONG = 'for n in $(seq 60); do echo "a long complaint, line $n" >&2; done; exit 3'


def test_a_failed_run_is_seen_without_scrolling_and_retried_with_the_mended_agent(
    engine: Engine, browser: Any
) -> None:
    run_id = engine.submit_agent("press", GRAPH, {"read.sh": READ, "work.sh": LONG})
    engine.drive()
    engine.write("press", GRAPH, {"read.sh": READ, "work.sh": READ})
    with ServedSite(engine.client) as site:
        person = Person(browser, site, viewport={"width": 1440, "height": 900})
        page = person.page
        page.goto(f"{person.origin}/runs/{run_id}")
        page.locator(".canvas").wait_for()

        top = page.locator(".canvas").bounding_box()["y"]
        retry = page.get_by_role("link", name="Retry")
        retry.click()
        dialog = page.get_by_role("dialog", name="Retry the run")
        dialog.wait_for()
        said = dialog.inner_text()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        has_focus = retry.evaluate("link => link === document.activeElement")
        page.get_by_role("link", name="Timeline").click()
        rows = page.locator(".timeline-grid").bounding_box()
        page.mouse.move(rows["x"] + rows["width"] * 0.25, rows["y"] + 8)
        page.mouse.down()
        page.mouse.move(rows["x"] + rows["width"] * 0.75, rows["y"] + 8)
        page.locator(".timeline-cursor span").wait_for()
        page.mouse.up()
        page.wait_for_url("**/timeline?from=*&to=*")
        page.get_by_role("link", name="Show all of the time").wait_for()
        page.get_by_role("link", name="Retry").click()
        dialog.get_by_role("button", name="Retry with").click()
        page.locator(".run-title .state-running, .run-title .state-queued").wait_for()

        assert top <= 320
        assert "repeats work" in said
        assert "1 file changed: work.sh" in said
        assert has_focus
        assert page.locator(":modal").count() == 0
        assert person.complaints.all == []
        person.context.close()
    engine.drive()
    assert engine.run(run_id).status == "succeeded"


ASKS = """
start: ask
nodes:
  ask:
    type: approval
    question: "{{initial_prompt}}"
    options: [a, b]
    routes: {a: z, b: z}
    on_other: z
  z: {type: end, output: "{{choice}}"}
"""
TYPED = """
start: ask
nodes:
  ask: {type: input, question: "{{initial_prompt}}", validation: len(input) > 3, next: z}
  z: {type: end}
"""


def test_a_long_question_leaves_its_graph_in_the_upper_third(engine: Engine, browser: Any) -> None:
    prompt = "Publish?\n\n# A title\n\n" + "It says a lot of things. " * 80
    runs = [
        engine.submit_agent(name, graph, prompt=prompt)
        for name, graph in (("choosing", ASKS), ("typing", TYPED))
    ]
    engine.drive()
    with ServedSite(engine.client) as site:
        person = Person(browser, site, viewport={"width": 1440, "height": 900})
        page = person.page
        for run_id in runs:
            page.goto(f"{person.origin}/runs/{run_id}")
            assert page.locator(".canvas").bounding_box()["y"] <= 320
        page.get_by_role("textbox", name="Your answer").fill("long enough")
        page.get_by_role("button", name="Answer", exact=True).click()
        page.locator(".run-title .state-waiting").wait_for(state="detached")

        phone = Person(browser, site, viewport={"width": 390, "height": 844})
        page = phone.open(f"/runs/{runs[0]}")
        page.locator(".tab-choice summary").click()
        engine.client.answer(runs[0], "a")
        page.locator(".run-title .state-waiting").wait_for(state="detached")
        page.get_by_role("link", name="Events").click()  # the menu stays open meanwhile
        page.wait_for_url("**/events")
        assert page.locator(".tab-choice summary").inner_text().strip() == "Events"
        page = person.open(f"/runs/{runs[0]}/agent")
        page.locator(".source span span").first.wait_for()
        numbers = """all => all.filter(
            each => getComputedStyle(each, "::before").content !== "none").length"""
        numbered = page.locator(".source span").evaluate_all(numbers)
        assert numbered == page.locator(".source > span").count() > 0
        assert person.complaints.all == phone.complaints.all == []
        person.context.close()
        phone.context.close()


OUTER = """
start: inner
nodes:
  inner: {type: agent, agent: inner, prompt: "", next: z}
  z: {type: end}
"""


def test_what_a_child_run_did_is_read_when_it_is_opened(engine: Engine, browser: Any) -> None:
    engine.write("inner", GRAPH, {"read.sh": READ, "work.sh": READ})
    run_id = engine.finish(OUTER).run_id
    with ServedSite(engine.client) as site:
        person = Person(browser, site)
        page = person.page
        page.goto(f"{person.origin}/runs/{run_id}/timeline")
        toggle = page.get_by_role("link", name="What run inner did")
        before = page.get_by_role("link", name="2 work").count()

        toggle.focus()
        page.keyboard.press("Enter")
        page.get_by_role("link", name="2 work").wait_for()
        has_focus = toggle.evaluate("link => link === document.activeElement")
        page.reload()
        page.get_by_role("link", name="2 work").wait_for()
        toggle.click()
        page.get_by_role("link", name="2 work").wait_for(state="detached")

        assert before == 0
        assert has_focus
        assert toggle.get_attribute("aria-expanded") == "false"
        assert "open=" not in page.url
        assert person.complaints.all == []
        person.context.close()
