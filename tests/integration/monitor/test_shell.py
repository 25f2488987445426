"""What all pages have around them: the rail with what wants attention, and their place."""

from __future__ import annotations

import re

from sleipnir.scheduler.client.limits.commands import LimitCommands
from tests.support.engine import Engine
from tests.support.site import ServedSite

ASKING = """
start: name
nodes:
  name: {type: input, question: "Under which name?", next: z}
  z: {type: end}
"""


def marks(page: str) -> dict[str, str]:
    """What the rail shows beside its pages."""
    found = re.findall(
        r'class="label">(\w+)</span><span class="count"( hidden)?><b>(\d+)</b>', page
    )
    return {label: number for label, hidden, number in found if not hidden}


def place(page: str) -> list[str]:
    """The names in the head, from the top."""
    (crumbs,) = re.findall(r'<nav class="crumbs".*?</nav>', page, re.S)
    return re.findall(r">([^<>]+)</(?:a|b|bdi)>", crumbs)


def test_the_rail_says_what_wants_attention(engine: Engine, site: ServedSite) -> None:
    quiet = site.ask("/agents").text
    engine.finish(ASKING)
    LimitCommands(engine.store).pause("openai", "costs")

    with ServedSite(engine.client) as started:
        page = started.ask("/agents").text

    assert marks(quiet) == {}
    assert marks(page) == {"Inbox": "1", "Limits": "1", "More": "1"}
    assert '<a href="/agents" aria-current="page">' in page


def test_a_page_says_where_it_is(engine: Engine, site: ServedSite) -> None:
    run_id = engine.finish(ASKING, batch="evening").run_id

    assert place(site.ask("/runs").text) == ["Runs"]
    assert place(site.ask(f"/runs/{run_id}").text) == ["Runs", "tested", run_id[:8]]
    assert place(site.ask("/batches/evening").text) == ["Batches", "evening"]
    assert place(site.ask("/runs/0000000000000000").text) == ["Error"]
