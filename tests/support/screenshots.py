"""Makes the pictures in docs/monitor.md: `scripts/screenshots`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.machines import Machines, WorkerState
from tests.support.browser import Person, chromium
from tests.support.engine import Clock, Engine
from tests.support.model_server import ModelServer, Reply, says
from tests.support.pages import ROOT
from tests.support.redis_server import RedisServer
from tests.support.site import ServedSite

PICTURES: Final = ROOT / "docs" / "pictures"
MOST_BYTES: Final = 150_000
_SIZE: Final = {"width": 1440, "height": 900}
_PAGES: Final = 240
_PASSED_S: Final = 2_700  # since the runs
_UNREADABLE: Final = (31, 117, 118, 204)

GRAPH = f"""
description: Reads pages, and asks whether what they say may be published
model: openai:gpt-4o-mini
initial_state: {{pages: [{", ".join(f"page-{n}" for n in range(_PAGES))}]}}
settings: {{tolerate_failures: false}}
start: fetch
nodes:
  fetch: {{type: script, script: fetch.sh, next: each}}
  each: {{type: map, over: "{{{{pages}}}}", as: page, branch: summarise, collect_into: found,
         on_error: collect, next: [count, sort]}}
  summarise: {{type: llm, prompt: "Summarise {{{{page}}}} in a sentence.", max_attempts: 1}}
  count: {{type: script, script: fetch.sh, state_updates: {{}}, next: digest}}
  sort: {{type: script, script: fetch.sh, state_updates: {{}}, next: digest}}
  digest: {{type: llm, prompt: "Make a digest.", fallback: excuse, next: review}}
  excuse: {{type: script, script: fetch.sh, next: review}}
  review: {{type: approval, question: "Publish the digest of {{{{initial_prompt}}}}?",
           options: ["publish", "discard"], routes: {{"publish": publish, "discard": done}},
           on_other: done}}
  publish: {{type: script, script: publish.sh, next: done}}
  done: {{type: end, output: "published"}}
"""
FILES: Final = {
    "fetch.sh": "echo 'fetched 240 pages' >&2; echo '{}'",
    "publish.sh": "echo 'publish: 503 Service Unavailable' >&2; exit 1",
}


def main() -> None:
    """Write all pictures."""
    with (
        tempfile.TemporaryDirectory(prefix="sleipnir-") as home,
        RedisServer(Path(home) / "redis") as server,
        connect(server.url) as client,
        ModelServer() as models,
    ):
        own = {
            "SLEIPNIR_CONFIG_DIR": f"{home}/config",
            "SLEIPNIR_DATA_DIR": f"{home}/data",
            "OPENAI_BASE_URL": models.base_url,
            "OPENAI_API_KEY": "none",
        }
        os.environ.update(own)
        models.when("Summarise", _summary)
        models.when("digest", says("Fourteen things changed this week; three of them matter."))
        clock = Clock()
        clock.ms = RedisClock(client).now_ms() - _PASSED_S * 1000
        engine = Engine(client, clock, Path(home))
        shots = _shots(_played(engine))
        with ServedSite(engine.client) as site, chromium() as browser:
            _announce(engine)  # late, as it holds for some seconds only
            _take(Person(browser, site, viewport=_SIZE, color_scheme="light"), shots)


def _summary(request: Any) -> Reply:
    unreadable = any(f"page-{number} " in request.text for number in _UNREADABLE)
    text = "" if unreadable else "It tells what has changed since last week, and why."
    return says(text, prompt_tokens=1_800, completion_tokens=60)


def _played(engine: Engine) -> str:
    """Create runs of every kind; return the one that waits for a person."""
    for week, answer in (("week 44", "discard"), ("week 45", "discard"), ("week 46", "publish")):
        engine.submit_agent("press", GRAPH, FILES, prompt=week, answers={"review": [answer]})
    waiting = engine.submit_agent("press", GRAPH, FILES, prompt="week 47")
    engine.drive()
    engine.clock.move(_PASSED_S)
    return waiting


def _announce(engine: Engine) -> None:
    """Have a worker and a scheduler report themselves."""
    worker = WorkerState("gpu-3", 4711, slots=8, busy=2, taken=981, idle_s=1, memory_bytes=2**27)
    Machines(engine.redis).announce(worker, with_queue=True)
    engine.another_scheduler().run_once()


def _shots(run_id: str) -> Mapping[str, str]:
    """Return addresses by the name of their picture."""
    run = f"/runs/{run_id}"
    return {
        "now": "/now",
        "graph": f"{run}/graph?node=each",
        "items": f"{run}/items/1/each?state=failed&item={_UNREADABLE[0]}",
        "model": f"{run}/model?node=summarise&item={_UNREADABLE[0]}",
    }


def _take(person: Person, shots: Mapping[str, str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, path in shots.items():
        person.page.goto(f"{person.origin}{path}")
        person.page.locator("[data-live=on]").wait_for()
        if name != "now":  # the tab's content, without what is above all tabs
            person.page.locator(".tabs").scroll_into_view_if_needed()
            person.page.evaluate("document.querySelector('.tabs').scrollIntoView()")
        picture = PICTURES / f"{name}.png"
        person.page.screenshot(path=picture)
        size = picture.stat().st_size
        assert size < MOST_BYTES, f"{picture.name}: {size:,} bytes"
        print(picture.relative_to(ROOT))  # noqa: T201 - for the person who runs it
    person.context.close()


if __name__ == "__main__":
    main()
