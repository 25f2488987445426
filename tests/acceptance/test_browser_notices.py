"""Whoever has asked for it is told of questions and failures while nobody looks at the pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser import Person, chromium
from tests.support.engine import Engine
from tests.support.site import ServedSite
from tests.support.wait import wait_until

GRAPH = """
settings: {tolerate_failures: false}
start: review
nodes:
  review: {type: input, question: "Which page?", next: print}
  print: {type: script, script: print.sh, next: z}
  z: {type: end}
"""
FILES = {"print.sh": "exit 3"}
# A browser without a screen shows none; what it is asked to show is kept.
RECORDER = """
window.told = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { return (Notification.permission = "granted"); }
  constructor(text, { tag }) { window.told.push([text, tag]); }
};
window.leave = () => Object.defineProperty(document, "hidden", { get: () => true });
"""


@pytest.fixture
def person(engine: Engine) -> Iterator[Person]:
    with chromium() as browser, ServedSite(engine.client) as site:
        found = Person(browser, site)
        found.context.add_init_script(RECORDER)
        yield found
        found.context.close()


def test_questions_and_failures_are_told_to_who_does_not_look(
    engine: Engine, person: Person
) -> None:
    run = engine.finish(GRAPH, FILES)
    page: Any = person.open(f"/runs/{run.run_id}")
    page.wait_for_selector("[data-inbox] .count:has-text('1')")
    unasked = page.title()

    page.get_by_role("button", name="Alert me").click()
    page.wait_for_selector("[data-notices][aria-pressed=true]")
    engine.finish(GRAPH, FILES)
    page.wait_for_selector("[data-inbox] .count:has-text('2')")
    looked_at = page.evaluate("told")
    page.evaluate("localStorage.removeItem('sleipnir-seen'); leave()")
    engine.finish(GRAPH, FILES)
    wait_until(lambda: len(page.evaluate("told")) == 1, "the question is told")
    engine.client.answer(run.run_id, "7")
    engine.drive()
    wait_until(lambda: len(page.evaluate("told")) == 2, "the failure is told")

    assert unasked.startswith("(1) ◆ ")
    assert looked_at == []
    questions, failure = page.evaluate("told")
    assert questions == ["3 open questions", "inbox"]
    assert failure[0].startswith("✕ tested ")
    assert failure == [failure[0], f"run:{run.run_id}"]
    assert "✕ tested" in page.title()
    assert person.complaints.all == []
