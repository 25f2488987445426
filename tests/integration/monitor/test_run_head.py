"""The head of a run's page: what it is called, what it spent, what to do about it, its tabs."""

from __future__ import annotations

import re

from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says
from tests.support.site import ServedSite

WRITING = """
model: openai:gpt-4o-mini
settings: {tolerate_failures: false}
start: write
nodes:
  write: {type: llm, prompt: "Write {{initial_prompt}}.", state_updates: {output: "{{output}}"},
          next: check}
  check: {type: script, script: check.sh, next: z}
  z: {type: end, output: "{{output}}"}
"""
FILES = {"check.sh": "case $GRAPH_STATE in *wrong*) echo why >&2; exit 3;; esac; echo '{}'"}
APPROVING = """
start: review
nodes:
  review: {type: approval, question: "| a | b |\\n|---|---|\\n| 1 | 2 |", options: ["ship", "drop"],
           routes: {"ship": z, "drop": z}, on_other: z}
  z: {type: end, output: "{{input}}"}
"""


def head_of(page: str) -> str:
    return page[page.index('class="run-head"') : page.index('class="tabs"')]


def tabs_of(page: str) -> list[str]:
    nav = page[page.index('class="tabs"') : page.index('id="part"')]
    links = re.findall("<a.*?</a>", nav, re.DOTALL)
    return [" ".join(re.sub("<[^>]+>", "", each).split()) for each in links]


def test_a_run_is_called_by_what_was_asked_and_opens_on_its_result(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.when("Write", says("# Done\n\nIt is **fine**."))
    runs = [engine.finish(WRITING, FILES, prompt="<of> the week", batch="b", item="i 7")]
    runs += [engine.finish(WRITING, FILES, prompt="another") for _ in range(5)]
    run = runs[0].run_id

    page, graph = site.ask(f"/runs/{run}").text, site.ask(f"/runs/{run}/graph").text
    head = head_of(page)

    assert "&lt;of&gt; the week</h1>" in head
    assert 'href="/batches/b">b</a> / i 7' in head
    assert "<b>1</b> model call" in " ".join(head.split())
    assert re.search(r"usual \$[\d.]+", head)
    assert tabs_of(page)[:4] == ["Result", "Graph", "Timeline", "Conversation 1"]
    assert {"Items", "Children"}.isdisjoint(tabs_of(page))
    assert "<h1>Done</h1>" in page
    assert "Done" not in head  # said where it is the object, and nowhere else
    assert "<h1>Done</h1>" not in graph


def test_an_error_is_said_once_with_what_to_do_about_it(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.when("Write", says("wrong"), says("right"))
    failed = engine.finish(WRITING, FILES).run_id
    good = engine.finish(WRITING, FILES).run_id

    head = head_of(site.ask(f"/runs/{failed}/events").text)

    assert head.count("exit code 3") == 1
    assert head.count("why") == 1
    assert "<b>Remedy</b>" in head
    assert f"sleipnir logs {failed[:8]} --node check" in head
    assert f'href="/compare?a={good}&amp;b={failed}">Compare with the last good run' in head
    assert f'href="/runs/{failed}/model?node=check"' not in head  # it is a script
    assert f'href="/runs/{failed}/logs?node=check"' in head
    panel = site.ask(f"/runs/{failed}/graph?node=check").text.partition("node-panel")[2]
    assert panel.count("exit code 3") == 1
    assert ">why" in panel.partition("<b>Log</b>")[2]


def test_a_question_is_answered_where_the_run_is_shown(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(APPROVING).run_id

    page = site.ask(f"/runs/{run}").text
    path = f"/inbox/{run}/1/review?then=run"
    answered = site.ask(path, "POST", form={"answer": "ship"})

    head = head_of(page)
    assert "<table>" in head
    assert f'action="{path}"' in head
    assert 'name="answer" value="ship"' in head
    assert f'href="/runs/{run}/cancel">Cancel' in head
    assert tabs_of(page)[0] == "Graph"
    assert answered.headers["Location"] == f"/runs/{run}"


def test_each_act_says_what_it_does_before_it_is_done(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.when("Write", says("right"))
    run, ended = engine.finish(APPROVING).run_id, engine.finish(WRITING, FILES).run_id

    def said(path: str) -> str:
        return " ".join(site.ask(path).text.split())

    cancel = said(f"/runs/{run}/cancel")
    assert "stops at <b>review</b>" in cancel
    assert "its 1 open question disappear" in cancel
    assert "Cancel the run</button>" in cancel
    assert "only runs that have ended can be retried" in said(f"/runs/{run}/retry")
    assert "It has already ended" in said(f"/runs/{ended}/cancel")
    assert "This run stays as it is" in said(f"/runs/{ended}/fork")
    assert "no other machine" in said(f"/runs/{ended}/move")
    assert engine.run(run).status == "waiting"


def test_a_normal_agent_s_run_opens_on_its_conversation_and_has_no_graph(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.script.add(says("Hello."))
    run = engine.submit_normal("model: openai:m\n", prompt="Hi")
    engine.drive()

    page = site.ask(f"/runs/{run}").text

    assert 'aria-current="page">Conversation' in " ".join(page.split())
    assert "Graph" not in tabs_of(page)
    assert tabs_of(page)[0] == "Result"
