"""The drawing of a run and the keys of the pages, in a real browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.store.keys import run_key
from sleipnir.worker.monitor.drawings import Drawings
from tests.support.browser import Person
from tests.support.engine import Engine
from tests.support.site import ServedSite
from tests.support.wait import wait_until

LENGTH = 70
FAILING = """
settings: {tolerate_failures: false}
start: review
nodes:
  review:
    type: approval
    question: "Publish?"
    options: ["yes", "no"]
    routes: {"yes": print, "no": z}
    on_other: z
  print: {type: script, script: print.sh, next: z}
  z: {type: end, output: done}
"""
FILES = {"print.sh": "echo 'no such printer' >&2; exit 3"}


def row_of_nodes(length: int) -> str:
    """A graph of scripts in a row, and a question at its end."""
    nodes = [
        f"  n{n}: {{type: script, script: go.sh, state_updates: {{}}, next: n{n + 1}}}"
        for n in range(length)
    ]
    asks = f"  n{length}: {{type: input, question: Well?, next: z}}\n  z: {{type: end}}"
    return "\n".join(["start: n0", "nodes:", *nodes, asks])


def long_run(engine: Engine, length: int = LENGTH) -> str:
    """A run that has come to the end of its row without anything being executed."""
    run_id = engine.submit(row_of_nodes(length), {"go.sh": "echo '{}'"})
    at = engine.clock.ms
    history = [
        {
            "at": at + step,
            "step": step,
            "frontier": [f"n{step}"],
            "nodes": {f"n{step - 1}": {"ms": 10 * step, "usage": [1, 1, 0.001 * step, 0]}},
            "writes": {},
        }
        for step in range(1, length + 1)
    ]
    engine.redis.rpush(run_key("history", run_id), *map(json.dumps, history))
    fields = {"step": length + 1, "frontier": f"n{length}", "started": at, "status": "running"}
    # One call each: tokens, and a cost in units of 10^-10 $.
    spent = {
        f"spent:n{step - 1} x": f"1 5 1 1 0 0 {step * 10**7} 0" for step in range(1, length + 1)
    }
    engine.redis.hset(run_key("run", run_id), mapping=fields | spent)
    return run_id


def view(page: Any) -> list[float]:
    """What of the drawing is shown: x, y, width, height."""
    return [float(each) for each in page.locator("svg.graph").get_attribute("viewBox").split()]


def test_a_large_drawing_is_moved_searched_coloured_and_played(
    engine: Engine, person: Person
) -> None:
    page = person.open(f"/runs/{long_run(engine)}")
    page.locator(".minimap").wait_for()
    node = page.locator(".graph a.node")

    first = view(page)
    page.keyboard.press("+")
    larger = view(page)
    canvas = page.locator("[data-graph]").bounding_box()
    middle = canvas["x"] + canvas["width"] / 2, canvas["y"] + 150  # within the window
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 60, middle[1] + 80, steps=4)
    page.mouse.up()
    moved = view(page)
    page.mouse.wheel(0, 400)
    wait_until(lambda: view(page)[2] > moved[2], "the wheel has zoomed out")
    page.keyboard.press("0")
    whole = view(page)
    block = page.locator(".graph .fold text").text_content()

    assert larger[2] == pytest.approx(first[2] / 1.25, rel=0.01)
    assert moved[0] < larger[0]
    assert moved[2] == pytest.approx(larger[2], rel=0.01)
    assert "node=" not in page.url
    assert whole[2] > moved[2]
    assert block == "✓ 70 nodes"

    page.get_by_label("Find", exact=True).fill("n5")
    page.get_by_label("Find", exact=True).press("Enter")
    assert page.evaluate("document.activeElement.dataset.node") == "n5"
    assert view(page)[2] < whole[2]

    page.get_by_label("Show").select_option("cost")
    assert node.and_(page.locator('[data-node="n69"]')).locator(".now").text_content() == "$0.070"
    heat = "id => document.querySelector(`[data-node=${id}]`).style.getPropertyValue('--heat')"
    assert [page.evaluate(heat, each) for each in ("n69", "n0", "z")] == ["60%", "1%", "0%"]
    page.get_by_label("Show").select_option("state")
    page.get_by_role("button", name="Play").click()
    done = page.locator(".graph .is-done")
    wait_until(lambda: done.count() < 10, "the run is played from its beginning")
    page.get_by_role("button", name="Stop").click()
    assert "step=" in page.url
    assert person.complaints.all == []


def test_what_is_too_large_to_be_overlooked_is_folded(engine: Engine, person: Person) -> None:
    page = person.open(f"/runs/{long_run(engine, 450)}?step=400")
    row = page.locator(".graph a.node")
    row.wait_for()

    assert (
        row.count(),
        page.locator(".graph .node-title, .graph g > title").first.text_content(),
    ) == (1, "n0 (452 nodes, to z)")
    assert row.locator(".now").text_content() == "◐ 400/452"
    row.click()
    page.wait_for_url("**node=n400")
    page.get_by_label("Find", exact=True).fill("n17")
    page.get_by_label("Find", exact=True).press("Enter")
    page.wait_for_url("**node=n17")
    page.get_by_role("heading", name="n17").wait_for()
    panel = page.get_by_role("complementary", name="Node")
    assert panel.locator("[aria-current]").text_content() == "n17"
    assert "is-chosen" in row.get_attribute("class")
    assert person.complaints.all == []


def test_a_failure_is_found_and_a_question_answered_with_keys_alone(
    engine: Engine, person: Person
) -> None:
    failed = engine.finish(FAILING, FILES, answers={"review": ["yes"]}).run_id
    asking = engine.finish(FAILING, FILES).run_id
    page = person.open("/now")
    keys = page.keyboard

    def press(*names: str) -> None:
        for name in names:
            keys.press(name)

    press("g", "r")
    page.wait_for_url("**/runs")
    press("f")
    page.wait_for_url(f"**/runs/{failed}*")
    page.get_by_text("no such printer").first.wait_for()
    press("f")
    page.wait_for_url("**/graph?node=print")
    press("g", "i")
    page.wait_for_url("**/inbox")
    press("j", "x")
    assert page.locator("[data-row] input:checked").count() == 1
    press("Enter")
    page.wait_for_url(f"**/inbox/{asking}/**")
    reached: list[str] = []
    while "no" not in reached:
        press("Tab")
        reached.append(page.evaluate("document.activeElement.value ?? ''"))
        assert len(reached) < 60
    press("Enter")
    page.wait_for_url("**/inbox?answered=*")
    press("?")
    page.get_by_label("Keys work on these pages").uncheck()
    press("Escape", "g", "r", "/")
    assert page.evaluate("document.activeElement.name") != "q"

    engine.drive()
    assert engine.run(asking).status == "succeeded"
    assert person.complaints.all == []


def test_focus_and_what_is_entered_outlast_what_happens(engine: Engine, person: Person) -> None:
    run_id = engine.finish(FAILING, FILES).run_id
    page = person.open(f"/runs/{run_id}")
    page.wait_for_selector("[data-live=on]")
    node = page.locator('.graph a[data-node="z"]')
    node.focus()
    page.evaluate("() => { document.querySelector('.graph a[data-node=z]').known = true }")

    engine.client.answer(run_id, "no")
    engine.drive()

    page.wait_for_selector(".run-title .state-succeeded")
    page.wait_for_selector('.graph .is-done[data-node="z"]')
    assert page.evaluate("document.activeElement.known") is True
    assert person.complaints.all == []


SHAPE = """
start: fork
nodes:
  fork: {type: script, script: go.sh, next: [left, right]}
  left: {type: script, script: go.sh, state_updates: {}, next: z}
  right: {type: script, script: go.sh, state_updates: {}, next: z}
  z: {type: end}
"""
FOCUSED = "document.activeElement.dataset.node ?? document.activeElement.textContent"


def test_a_drawing_is_one_stop_of_the_tab_key(engine: Engine, person: Person) -> None:
    run_id = engine.finish(SHAPE, {"go.sh": "echo '{}'"}).run_id
    page = person.open(f"/runs/{run_id}/graph")
    page.wait_for_selector('.graph a[tabindex="0"]')
    press = page.keyboard.press

    stops = page.locator('.graph a[tabindex="0"]')
    assert (stops.count(), stops.get_attribute("data-node")) == (1, "fork")
    stops.focus()
    press("ArrowRight")
    one = page.evaluate(FOCUSED)
    press("ArrowDown")  # stays where it is if the other one is above
    press("ArrowUp") if page.evaluate(FOCUSED) == one else None
    other = page.evaluate(FOCUSED)
    press("ArrowRight")
    last = page.evaluate(FOCUSED)
    press("ArrowRight")

    assert ({one, other}, last, page.evaluate(FOCUSED)) == ({"left", "right"}, "z", "z")
    assert stops.get_attribute("data-node") == "z"
    press("Enter")
    page.locator(".node-panel h2:focus", has_text="z").wait_for()
    assert page.url.endswith("?node=z")
    grip = page.get_by_role("separator", name="Width of the panel")
    grip.press("ArrowLeft")
    assert page.locator(".node-panel").bounding_box()["width"] == 420
    page.locator(".node-panel h2").focus()
    press("Escape")
    assert page.evaluate("document.activeElement.matches('a.node.is-chosen')")
    page.go_back()
    page.locator(".node-panel").wait_for(state="detached")
    assert person.complaints.all == []


def test_a_drawing_that_takes_longer_appears_by_itself(
    engine: Engine, site: ServedSite, person: Person
) -> None:
    run_id = engine.finish(SHAPE, {"go.sh": "echo '{}'"}).run_id
    site.site.drawings = Drawings(engine.client, max_wait_s=0)

    page = person.open(f"/runs/{run_id}/graph")
    page.get_by_text("There is no drawing: the graph is still being laid out").wait_for()
    page.locator("svg.graph").wait_for()

    site.site.drawings.close()
    assert person.complaints.all == []


# Of names on the screen, px, and of what the page has below the window.
SIZES = """() => [
  13 * document.querySelector(".graph .name").getScreenCTM().a,
  document.documentElement.scrollHeight - innerHeight,
]"""


def test_steps_are_shown_in_place(engine: Engine, person: Person) -> None:
    page = person.open(f"/runs/{long_run(engine)}/graph")
    page.locator(".minimap").wait_for()
    page.evaluate("window.isSamePage = true")
    page.set_viewport_size({"width": 1440, "height": 900})
    wait_until(lambda: page.evaluate(SIZES)[1] <= 0, "the page fills the window")
    names = page.evaluate(SIZES)[0]
    done = page.locator(".graph a.is-done")

    slider = page.get_by_role("slider", name="Step")
    slider.fill("7")
    page.get_by_text("after step 7 of 70").wait_for()
    wait_until(lambda: done.count() == 7, "the drawing shows the step")
    here = page.url, slider.get_attribute("aria-valuetext")
    slider.blur()
    page.keyboard.press("]")
    page.get_by_text("after step 8 of 70").wait_for()
    slider.fill("70")
    page.locator(".steps span", has_text="now").wait_for()

    assert names >= 12
    assert here[0].endswith("?step=7")
    assert here[1] == "after step 7 of 70"
    assert "step=" not in page.url
    assert page.evaluate("window.isSamePage") is True
    assert person.complaints.all == []
