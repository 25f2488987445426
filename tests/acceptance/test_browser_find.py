"""People find names, acts of pages and words of runs, and look at runs beside their list."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.store.queries import indexes
from tests.support.browser import Person
from tests.support.engine import Engine

ASKS = """
start: name
nodes:
  name: {type: input, question: "Under which name?", next: z}
  z: {type: end}
"""


def test_runs_are_looked_at_in_the_list_and_names_acts_and_texts_are_found(
    engine: Engine, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = engine.submit_agent("lead-scoring", ASKS, prompt="a needle <b>")
    for _ in range(45):
        engine.clock.move(1)
        engine.submit_agent("misleading", ASKS, prompt="hay")
    monkeypatch.setattr(indexes, "MOST_LOOKED_AT", 10)
    page = person.open("/runs")

    page.keyboard.press("j")
    page.keyboard.press(" ")
    first = page.locator(".peek .run-head [data-copied]").first.get_attribute("data-copied")
    page.keyboard.press("j")
    page.locator(f".peek .run-head [data-copied]:not([data-copied='{first}'])").first.wait_for()
    page.keyboard.press("Escape")
    page.locator(".peek").wait_for(state="hidden")
    rows = page.locator("[data-row]")
    assert rows.nth(0).get_attribute("data-row") == first
    assert page.evaluate("document.activeElement.closest('[data-row]').dataset.row") == rows.nth(
        1
    ).get_attribute("data-row")

    page.keyboard.press("Control+k")
    page.keyboard.type("lead")
    page.locator(".find li").nth(1).wait_for()
    names = page.locator(".find li bdi").all_inner_texts()
    page.keyboard.press("Escape")
    page.locator(".find").wait_for(state="hidden")
    page.keyboard.press("/")
    page.locator(".find input").fill("colu")
    page.locator(".find li").first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Children").wait_for()
    page.keyboard.press("Control+k")
    page.locator(".find input").fill("a needle")
    page.locator(".find-texts", has_text="“a needle”").click()
    page.locator(f'[data-row="{hidden}"]').wait_for()
    page.goto(f"{person.origin}/runs?q=a+needle&limit=5")
    page.locator(f'[data-row="{hidden}"]').wait_for()
    page.locator("[data-searching] button").wait_for(state="detached")

    assert names == ["lead-scoring", "misleading"]
    assert page.locator("[data-searching]").inner_text().startswith("4")
    assert page.locator("[data-none]").is_hidden()
    assert person.complaints.all == []
