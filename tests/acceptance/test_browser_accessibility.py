"""Every page can be read and used by everybody: axe finds nothing, and nothing is cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sleipnir.scheduler.client.inbound.answer_links import make_answer_link
from sleipnir.scheduler.runs.hooks.model import ENDS, Hook
from sleipnir.scheduler.runs.inbound.triggers import Trigger
from sleipnir.scheduler.store.hooks.records import Attempt
from sleipnir.scheduler.store.hooks.triggers import Triggers
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.worker.monitor.routes import ROUTES, SiteRoute
from tests.support.browser import Person, chromium
from tests.support.engine import Engine
from tests.support.evaluations import run_rows, write_sorter
from tests.support.model_server import ModelServer, says
from tests.support.site import ServedSite, is_page
from tests.support.styles import LONG

# What WCAG 2.2 asks for at the levels A and AA.
_STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_OF_LOOKS = ["color-contrast", "scrollable-region-focusable", "target-size"]
_RUN_AXE = """async rules => {
  const {violations} = await axe.run(document, {runOnly: rules, resultTypes: ["violations"]});
  return violations.map(({impact, id, nodes}) => `${impact} ${id}: ${nodes[0].html.slice(0, 200)}`);
}"""
# Every text twice as large, in boxes that stay: what a browser that enlarges texts alone does.
_ENLARGE = """() => {
  const all = [...document.querySelectorAll("body *:not(svg, svg *)")];
  const styles = all.map(each => getComputedStyle(each));
  const sizes = styles.map(style => [style.fontSize, style.lineHeight]);
  all.forEach((each, at) => ["fontSize", "lineHeight"].forEach((name, of) => {
    if (sizes[at][of].endsWith("px")) each.style[name] = `${2 * parseFloat(sizes[at][of])}px`;
  }));
}"""
_OF_LARGE_TEXTS = ["color-contrast", "scrollable-region-focusable"]
# Chips that end past the edge of the screen.
_HIDDEN_CHIPS = """() => [...document.querySelectorAll("main .chips > .chip")]
  .filter(each => each.getBoundingClientRect().right > innerWidth)
  .map(each => each.textContent.trim())"""
# Tables of figures that scroll sideways.
_HIDDEN_FIGURES = """() => [...document.querySelectorAll(".wide:has(> .list.figures)")]
  .filter(each => each.scrollWidth > each.clientWidth)
  .map(each => each.getAttribute("aria-label"))"""
_MOST_OF_A_PAGE = 400_000  # bytes
# Colours and sizes are all that a look changes. Pages take turns with the last one.
_LOOKS = (
    ("light", {"width": 1440, "height": 900}, _STANDARD),
    ("dark", {"width": 360, "height": 640}, _OF_LOOKS),
)
_TURNS = (
    ("dark", {"width": 1440, "height": 900}, _OF_LOOKS),
    ("light", {"width": 768, "height": 900}, _OF_LOOKS),
    ("light", {"width": 360, "height": 640}, _OF_LOOKS),
    ("dark", {"width": 768, "height": 900}, _OF_LOOKS),
)

MAPPED = """
description: Tells of words, and asks whether that is good
model: openai:gpt-4o-mini
initial_state: {words: [sun, moon, star, sky]}
settings: {tolerate_failures: false}
start: each
nodes:
  each: {type: map, over: "{{words}}", as: word, branch: ask, collect_into: found,
         on_error: collect, next: note}
  ask: {type: llm, prompt: "Tell of {{word}}.", max_attempts: 1}
  note: {type: script, script: note.sh, next: review}
  review: {type: approval, question: "Publish {{found}}?", options: ["yes", "no"],
           routes: {"yes": z, "no": break}, on_other: z}
  break: {type: script, script: break.sh, next: z}
  z: {type: end, output: "published"}
"""
FILES = {
    "note.sh": """
        echo 'taking a note' >&2
        python3 -c 'import json; print(json.dumps({"noted": ["a line of a note"] * 100}))'
    """,
    "break.sh": "echo 'no such printer' >&2; exit 3",
    "README.md": "Tells of words.\n" * 100,
}
ODD = """
start: f
initial_state: {given: ""}
settings: {tolerate_failures: false}
nodes:
  f: {type: script, script: f.sh, state_updates: {given: "{{initial_prompt}}"}, next: z}
  z: {type: end, output: "{{given}}"}
"""
PRINTS = r"""head -c 2000 >&2; printf '\033[31m<b>red</b> ' >&2; exit 3"""
ASKING = """
start: name
nodes:
  name: {type: input, question: "Under which name?", validation: "len(input) >= 5", next: z}
  z: {type: end}
"""
WAITS = """
model: openai:gpt-4o-mini
start: ask
nodes:
  ask: {type: llm, prompt: "Tell of the night.", next: z}
  z: {type: end}
"""


MEGABYTE = 1_000_000
HUGE = """
model: openai:gpt-4o-mini
settings: {tolerate_failures: false}
initial_state: {words: [], text: ""}
start: make
nodes:
  make: {type: script, script: make.sh, next: tell}
  tell: {type: llm, prompt: "Tell all of {{initial_prompt}}.", state_updates: {told: "{{output}}"},
         next: each}
  each: {type: map, over: "{{words}}", as: word, branch: fail, collect_into: found,
         on_error: collect, next: ask}
  fail: {type: script, script: fail.sh}
  ask: {type: input, question: "{{told}}{{text}}", state_updates: {said: "{{input}}"}, next: z}
  z: {type: end, output: "{{said}}"}
"""
HUGE_FILES = {
    "make.sh": """
        python3 -c 'import json, sys
        sys.stderr.write("y" * 1_000_000)
        print(json.dumps({"text": "b " * 500_000, "words": ["i" * 1_000_000, "j k " * 250_000]}))'
    """.replace("\n        ", "\n"),
    "fail.sh": "head -c 1000000 /dev/zero | tr '\\0' e >&2; exit 3",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser as people have it: what is cut off and too small, its scroll bars decide too."""
    with chromium(whole=True) as started:
        yield started


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as started:
        monkeypatch.setenv("OPENAI_BASE_URL", started.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield started


@pytest.fixture(autouse=True)
def no_schedules_left(engine: Engine) -> Iterator[None]:
    yield
    for schedule in engine.client.schedules.list():
        engine.client.schedules.delete(schedule.name)
    for hook in engine.client.hooks.list():
        engine.client.hooks.delete(hook.name)
    for trigger in engine.client.triggers.list():
        engine.client.triggers.delete(trigger.name)


def everything(engine: Engine, models: ModelServer) -> list[str]:
    """The addresses of all pages, each with something of every kind it can show."""
    models.when("star", says(""))
    models.script.add(*[says("It is bright.", prompt_tokens=1200)] * 6)
    worker = WorkerState("gpu-3", 4711, slots=8, busy=2, taken=9, idle_s=3, memory_bytes=2**27)
    Machines(engine.redis).announce(worker, with_queue=True)
    waiting = engine.finish(MAPPED, FILES, batch="evening").run_id
    failed = engine.finish(MAPPED, FILES, batch="evening", answers={"review": ["no"]}).run_id
    asking = engine.finish(ASKING).run_id
    engine.client.cancel(engine.submit(ASKING))
    odd = engine.submit_agent("o" * 60, ODD, {"f.sh": PRINTS}, prompt=LONG * 50)
    engine.drive()
    engine.submit(WAITS, batch="evening", economy_s=3600.0)
    engine.drive()
    nightly = {"agent": "tested", "every": "1d", "paused": True}
    engine.client.schedules.create("nightly", nightly)
    engine.store.hooks.put(Hook("ops", "https://ops.example/in", ENDS), None)
    Triggers(engine.store).put(Trigger("orders", "digest", prompt="{{body.id}}"), None)
    refused = Attempt("evt_1", "run.failed", {"run": failed}, 1, 1, 1, 500, 7, LONG)
    engine.store.deliveries.note("ops", refused)
    for version in ("one", "two"):
        write_sorter(engine, version)
        run_rows(engine)
    tabs = ("timeline", "state", "events", "logs", "model", "items", "children")
    of_runs = [f"/runs/{failed}/{tab}" for tab in tabs]
    nodes = [f"/runs/{failed}/graph?node={node}" for node in ("each", "ask", "note")]
    graphs = [*nodes, f"/runs/{waiting}/graph?step=1"]
    of_odd = [f"/runs/{odd}{tab}" for tab in ("", "/timeline", "/state", "/logs", "/events")]
    acts = [f"/runs/{failed}/retry", f"/runs/{waiting}/cancel", f"/runs/{failed}/fork"]
    narrower = [
        f"/runs/{failed}/model?node=ask&item=2",
        f"/runs/{failed}/items/1/each?item=2",
        f"/runs/{failed}/state?step=2",
    ]
    questions = [
        "/inbox",
        "/inbox?node=name",
        "/inbox/answered",
        f"/inbox/{waiting}/3/review",
        f"/inbox/{asking}/1/name",
        *answer_pages(engine, asking),
    ]
    engine_pages = [
        "/styles",
        "/now",
        "/runs",
        "/batches",
        "/batches/evening",
        "/limits",
        "/fleet",
        "/costs",
        "/hooks",
        "/hooks/ops",
        "/triggers",
        "/triggers/orders",
        "/schedules",
        "/schedules/nightly",
        "/evaluations",
        "/evaluations/sorter/golden",
        "/agents/tested?tab=plan",
    ]
    compared = f"/compare?a={waiting}&b={failed}"
    others = [compared, "/agents", "/agents/tested", "/audit", "/runs/0000000000000000"]
    return [
        *of_runs,
        *of_odd,
        f"/agents/{'o' * 60}",
        *acts,
        *graphs,
        *narrower,
        *questions,
        *engine_pages,
        *others,
    ]


def answer_pages(engine: Engine, asking: str) -> list[str]:
    """Return what somebody without an account sees, before a question is answered and after."""
    engine.configure(monitor_public_url="https://runs.example")
    answered = engine.finish(ASKING).run_id
    questions = [engine.client.open_question(run_id) for run_id in (asking, answered)]
    links = [make_answer_link(engine.client, each, "ann@example.com") for each in questions]
    engine.client.answer(answered, "Ann of the house", by="ann@example.com", via="link")
    return [urlsplit(link.url).path for link in links]


def is_among(route: SiteRoute, paths: Sequence[str]) -> bool:
    return any(re.fullmatch(route.pattern, path.partition("?")[0]) for path in paths)


def in_all_looks(page: Any, path: str, number: int) -> tuple[list[str], list[Any]]:
    """What axe finds on a page, and what is cut off, in bright and dark and in different widths."""
    violations, cut_off = [], []
    for scheme, size, rules in (_TURNS[number % len(_TURNS)], *_LOOKS):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        found = page.evaluate(_RUN_AXE, rules)
        violations += [f"{path}, {scheme} {size['width']}: {each}" for each in found]
        width = page.evaluate("document.documentElement.scrollWidth")
        cut_off += [(path, size["width"], width)] if width > size["width"] else []
    cut_off += [(path, 360, each) for each in page.evaluate(_HIDDEN_CHIPS)]
    cut_off += [(path, 360, each) for each in page.evaluate(_HIDDEN_FIGURES)]
    return violations, cut_off


def twice_as_large(page: Any, path: str, number: int) -> tuple[list[str], list[Any]]:
    """The same once its texts are twice as large, and its menus are open."""
    page.evaluate("document.querySelectorAll('.drop').forEach(menu => (menu.open = true))")
    page.emulate_media(color_scheme=("light", "dark")[number % 2])
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate(_ENLARGE)
    cut_off = []
    for width in (1440, 768, 360):
        page.set_viewport_size({"width": width, "height": 900})
        found = page.evaluate("document.documentElement.scrollWidth")
        cut_off += [(path, f"{width}, large", found)] if found > width else []
    return [f"{path}, large: {each}" for each in page.evaluate(_RUN_AXE, _OF_LARGE_TEXTS)], cut_off


def test_no_page_keeps_anybody_out(
    engine: Engine, site: ServedSite, browser: Any, models: ModelServer, node_modules: Path
) -> None:
    paths = everything(engine, models)
    assert [route.path for route in ROUTES if is_page(route) and not is_among(route, paths)] == []
    person = Person(browser, site)
    page = person.page
    person.context.add_init_script(path=node_modules / "axe-core" / "axe.min.js")

    violations, cut_off = [], []
    for number, path in enumerate(paths):
        page.goto(f"{person.origin}{path}")
        page.locator("main h1").first.wait_for()
        page.keyboard.press("e")  # all parts that are folded
        for look in (in_all_looks, twice_as_large):
            found, hidden = look(page, path, number)
            violations += found
            cut_off += hidden
    page.reload()  # with texts as they were
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    violations += page.evaluate(_RUN_AXE, _STANDARD)

    assert violations == []
    assert cut_off == []
    person.context.close()


def huge_pages(engine: Engine, models: ModelServer) -> list[str]:
    """The pages of a run that asks, one that ended and one that failed, all with huge texts."""
    many = f"{LONG} " * (MEGABYTE // len(LONG))
    models.when("Tell all", says(many))
    asking = engine.finish(HUGE, HUGE_FILES, prompt=many, batch="huge").run_id
    ended = engine.finish(HUGE, HUGE_FILES, prompt="a" * MEGABYTE, answers={"ask": [many]}).run_id
    failed = engine.finish(ODD, {"f.sh": HUGE_FILES["fail.sh"]}, prompt="a" * MEGABYTE).run_id
    places = (
        *("", "/graph?node=tell", "/graph?node=ask", "/timeline", "/state", "/events", "/logs"),
        *("/model", "/items/3/each?item=0", "/agent", "/retry"),
    )
    of_runs = [f"/runs/{run_id}{place}" for run_id in (asking, ended) for place in places]
    of_failed = [f"/runs/{failed}{place}" for place in ("", "/state", "/logs", "/agent")]
    lists = ["/now", "/runs", "/batches/huge", "/inbox", "/inbox/answered"]
    return [
        *lists,
        f"/inbox/{asking}/4/ask",
        *of_runs,
        *of_failed,
        f"/compare?a={asking}&b={ended}",
    ]


def test_huge_texts_are_shown_in_part(
    engine: Engine, site: ServedSite, browser: Any, models: ModelServer, node_modules: Path
) -> None:
    paths = huge_pages(engine, models)
    person = Person(browser, site)
    page = person.page
    person.context.add_init_script(path=node_modules / "axe-core" / "axe.min.js")

    violations, cut_off, sizes = [], [], {}
    for number, path in enumerate(paths):
        sizes[path] = len(page.goto(f"{person.origin}{path}").body())
        page.locator("main h1").first.wait_for()
        for scheme, size, rules in (_LOOKS[0], _TURNS[number % len(_TURNS)]):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            violations += [f"{path}: {each}" for each in page.evaluate(_RUN_AXE, rules)]
            width = page.evaluate("document.documentElement.scrollWidth")
            cut_off += [(path, size["width"], width)] if width > size["width"] else []
    question = next(path for path in paths if path.endswith("/4/ask"))
    page.goto(f"{person.origin}{question}")
    page.get_by_role("link", name="Show all").first.click()
    page.wait_for_url("**?whole=1")
    whole = page.get_by_label("The question").inner_text()

    assert violations == []
    assert cut_off == []
    assert {path: size for path, size in sizes.items() if size > _MOST_OF_A_PAGE} == {}
    assert len(whole) > MEGABYTE
    assert person.complaints.all == []
    person.context.close()
