"""Somebody who knows nothing but the link finds out what failed, why, and what that cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser import Person
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Reply, says
from tests.support.site import ServedSite

ITEMS = 300
FAILING = 217
MAP = f"""
model: openai:gpt-4o-mini
initial_state: {{words: [{", ".join(f"word-{n}" for n in range(ITEMS))}]}}
start: each
nodes:
  each:
    {{type: map, over: "{{{{words}}}}", as: word, branch: ask, collect_into: found,
     on_error: collect, next: z}}
  ask: {{type: llm, prompt: "Tell of {{{{word}}}}.", max_attempts: 1}}
  z: {{type: end, output: "told"}}
"""


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Has nothing to say of one word."""

    def reply(request: Any) -> Reply:
        return says("" if f"word-{FAILING}." in request.text else "It is **bright**.")

    with ModelServer() as started:
        started.when("Tell of", reply)
        monkeypatch.setenv("OPENAI_BASE_URL", started.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield started


def test_a_failed_item_its_model_call_and_its_cost_are_four_clicks_away(
    engine: Engine, browser: Any, models: ModelServer
) -> None:
    run_id = engine.finish(MAP).run_id
    with ServedSite(engine.client) as site:
        person = Person(browser, site)  # has opened the link, and is on its first page
        page = person.page

        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Runs").click()
        page.locator("[data-row] a").first.click()
        page.get_by_role("link", name=f"Items {ITEMS}").click()
        page.get_by_role("link", name=f"item {FAILING}").click()

        person.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator(".run-meta .copy").click()
        assert page.evaluate("navigator.clipboard.readText()") == run_id
        page.get_by_text(f"Tell of word-{FAILING}.").wait_for()
        thread = page.locator(".thread")
        assert thread.count() == 1
        assert page.get_by_role("article", name="assistant").locator(".said").count() == 0
        assert "15 tokens, $0.0000" in thread.inner_text()

        page.locator("[data-live]:not([hidden])").wait_for()  # the scripts are there
        wall = page.locator(".wall")
        square = wall.bounding_box()["width"] / 100  # a row has a hundred
        wall.click(position={"x": 1.5 * square, "y": square / 2})
        page.get_by_role("heading", name="Item 1", exact=True).wait_for()
        page.get_by_role("row", name=re.compile("^2 word-2")).click()
        page.get_by_role("heading", name="Item 2", exact=True).wait_for()
        assert page.evaluate("document.activeElement.textContent") == "close"
        page.go_back()
        page.get_by_role("heading", name="Item 1", exact=True).wait_for()
        page.keyboard.press("Escape")
        page.locator("#item").wait_for(state="detached")

        page.goto(f"{person.origin}/runs/{run_id}/model?node=ask&item=0")
        page.get_by_text("It is bright.", exact=True).wait_for()
        page.locator(".raw > summary").first.click()
        page.get_by_text("It is **bright**.", exact=True).wait_for()
        page.reload()
        page.get_by_text("It is **bright**.", exact=True).wait_for()
        assert not page.get_by_text("It is bright.", exact=True).is_visible()
        assert person.complaints.all == []
        person.context.close()
