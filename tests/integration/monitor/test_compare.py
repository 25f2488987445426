"""Two runs are compared: where they part, what differs, and the files of their agents."""

from __future__ import annotations

import json
import re

from sleipnir.scheduler.process.packing import unpack
from sleipnir.scheduler.store.keys import run_key
from sleipnir.worker.monitor.formats import NONE
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says
from tests.support.site import ServedSite

GRAPH = """
initial_state: {found: []}
start: look
nodes:
  look: {type: script, script: look.sh, next: review}
  review:
    type: approval
    question: "Publish?"
    options: ["yes", "no"]
    routes: {"yes": publish, "no": last}
    on_other: last
  publish: {type: script, script: look.sh, next: last}
  last: {type: end, output: "done {{initial_prompt}}"}
"""
FILES = {"look.sh": 'echo \'{"found": ["<b>1</b>"]}\''}


def test_two_runs_are_compared(engine: Engine, site: ServedSite) -> None:
    a = engine.finish(GRAPH, FILES, prompt="one", answers={"review": ["yes"]}).run_id
    b = engine.finish(GRAPH, FILES, prompt="<i>two</i>", answers={"review": ["no"]}).run_id

    document = site.ask(f"/api/v1/compare?a={a[:12]}&b={b}").json
    page = site.ask(f"/compare?a={a}&b={b[:12]}").text
    same = site.ask(f"/api/v1/compare?a={a}&b={a}").json
    begun = site.ask(f"/api/v1/compare?a={a}&b={b}&step=1").json

    assert not document["equal"]
    assert document["inputs"] == {"initial_prompt": {"a": "one", "b": "<i>two</i>"}}
    assert document["route"]["common"] == [["look"], ["review"]]
    assert (document["route"]["a"], document["route"]["b"]) == ([["publish"], ["last"]], [["last"]])
    first = document["first"]
    assert (first["step"], first["nodes"][0]["id"]) == ({"a": 3, "b": None}, "publish")
    assert document["files"] == []
    assert "&lt;i&gt;two" in page
    assert "They differ from step 3 | none on, at <b>publish</b> (only in a)" in page
    assert re.findall(r"route-step is-first\">(\w+)<", page) == ["publish", "last"]
    assert (same["equal"], same["first"], same["inputs"]) == (True, None, {})
    assert begun["route"] == {"common": [["look"]], "a": [], "b": []}
    assert site.ask("/api/v1/compare?a=x").status == 400
    assert site.ask(f"/compare?a={a}&b=ffffffffffffffff").status == 404
    assert f'href="/compare?a={a}"' in site.ask(f"/runs/{a}").text
    assert 'name="b"' in site.ask(f"/compare?a={a}").text


def test_runs_part_where_conditions_chose_differently(engine: Engine, site: ServedSite) -> None:
    graph = """
start: gate
nodes:
  gate: {type: set, next: [{when: initial_prompt == "one", to: first}, {to: last}]}
  first: {type: set, next: last}
  last: {type: end}
"""
    a, b = (engine.finish(graph, prompt=prompt).run_id for prompt in ("one", "two"))

    document = site.ask(f"/api/v1/compare?a={a}&b={b}").json
    page = site.ask(f"/compare?a={a}&b={b}").text

    route = {
        "a": {"index": 1, "label": 'initial_prompt == "one"'},
        "b": {"index": 2, "label": "else"},
    }
    assert document["nodes"][0]["route"] == route
    (node,) = document["first"]["nodes"]
    assert (node["id"], node["differs"], node["route"]) == ("gate", ["route"], route)
    assert "They differ from step 1 | 1 on, at <b>gate</b> (route)" in page
    assert "initial_prompt ==" in page


def test_what_two_versions_of_an_agent_made_differently(engine: Engine, site: ServedSite) -> None:
    answers = {"review": ["no"]}
    a = engine.finish(GRAPH, FILES, answers=answers).run_id
    other = {"look.sh": "echo '{\"found\": [2]}'  # <again>"}
    b = engine.finish(GRAPH, other, answers=answers).run_id
    words = "start: z\nnodes: {z: {type: end, output: '{{initial_prompt}}'}}"
    c, d = (engine.finish(words, prompt="word " * 40 + last).run_id for last in ("so", "but"))

    document = site.ask(f"/api/v1/compare?a={a}&b={b}").json
    page = site.ask(f"/compare?a={a}&b={b}").text
    texts = site.ask(f"/compare?a={c}&b={d}").text

    assert [node["differs"] for node in document["first"]["nodes"]] == [["writes"]]
    assert document["first"]["nodes"][0]["writes"]["b"] == {"found": [2]}
    assert [(file["path"], file["change"]) for file in document["files"]] == [
        ("look.sh", "changed")
    ]
    assert "# &lt;again&gt;" in page
    assert "<del> so</del></pre>" in texts
    assert "<ins> but</ins></pre>" in texts


def test_secrets_of_either_run_are_not_shown(engine: Engine, site: ServedSite) -> None:
    graph = """
    variables: [{name: token, description: a secret, secret: true}]
    start: z
    nodes: {z: {type: end, output: "%s with {{token}}"}}
    """ % ("x" * 985)
    secrets = ("canary-5f2c91d07e", "canary-00aa11bb22")
    a, b = (engine.finish(graph, variables={"token": each}).run_id for each in secrets)

    shown = [site.ask(f"{path}?a={a}&b={b}").text for path in ("/compare", "/api/v1/compare")]

    assert "canary" not in "".join(shown)  # nor a part of one


def test_the_errors_of_compared_runs_are_side_by_side(engine: Engine, site: ServedSite) -> None:
    graph = """
    settings: {tolerate_failures: false}
    start: work
    nodes:
      work: {type: script, script: work.sh, next: z}
      z: {type: end}
    """
    good = engine.finish(graph, {"work.sh": "echo '{}'"})
    bad = engine.finish(graph, {"work.sh": "echo '<broken>' >&2; exit 3"})

    where = f"/compare?a={good.run_id}&b={bad.run_id}"
    page = site.ask(where).text
    (work, _) = site.ask(f"/api/v1{where}").json["nodes"]

    assert (work["id"], work["step"]) == ("work", {"a": 1, "b": 1})
    assert work["error"]["b"] == "script 'work' failed: exit code 3: <broken>"
    assert work["elapsed_s"]["b"] is not None
    row = page.partition('<th scope="row">Error</th>')[2].partition("</tr>")[0]
    assert row.strip().startswith(f'<td>{NONE}</td> <td class="failure">R013 at work: ')
    assert "&lt;broken&gt;" in row
    assert page.partition("<h2>Nodes</h2>")[2].count("failed</span>") == 1


def test_runs_to_compare_one_with_are_offered(engine: Engine, site: ServedSite) -> None:
    good, worse, a = (
        engine.finish(GRAPH, FILES, prompt=each, answers={"review": [answer]}).run_id
        for each, answer in (("<good>", "yes"), ("worse", "no"), ("this", "yes"))
    )
    engine.redis.hset(run_key("run", worse), "agent", "other")

    page = site.ask(f"/compare?a={a[:12]}").text

    assert f'href="/compare?a={a}&amp;b={good}"' in page
    assert page.count(f"b={good}") == 1
    assert "<h2>The last good run</h2>" in page
    assert "&lt;good&gt;" in page
    assert f"b={a}" not in page
    assert site.ask("/compare?a=ffffffffffffffff").status == 404


def test_a_batch_s_item_is_compared_with_itself_in_another_batch_and_a_fork_with_its_origin(
    engine: Engine, site: ServedSite
) -> None:
    answers = {"review": ["no"]}
    ids = []
    for batch, item in (("monday", "order-7"), ("monday", "order-70"), ("tuesday", "order-7")):
        ids.append(engine.finish(GRAPH, FILES, batch=batch, item=item, answers=answers).run_id)
        engine.clock.move(1)
    fork = engine.client.fork(ids[0], 0).run_id

    item = site.ask(f"/compare?a={ids[2]}").text.partition("<h2>The same item</h2>")[2]
    of_fork = site.ask(f"/compare?a={fork}").text.partition("it was forked from</h2>")[2]

    assert f"b={ids[0]}" in item.partition("</section>")[0]
    assert f"b={ids[1]}" not in item.partition("</section>")[0]
    assert f"b={ids[0]}" in of_fork.partition("</section>")[0]


def test_prompts_are_compared_word_by_word_and_numbers_with_their_change(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    graph = """
    model: openai:gpt-4o-mini
    start: tell
    nodes:
      tell: {type: llm,
             prompt: "Tell of {{initial_prompt}} as you told of all the others, in few words.
              Do not say when you were asked, nor by whom.",
             state_updates: {said: "{{output}}"}, next: z}
      z: {type: end}
    """
    server.script.add(says("a", prompt_tokens=100), says("b", prompt_tokens=300))
    a, b = (engine.finish(graph, prompt=each).run_id for each in ("<sun>", "moon"))

    (node,) = site.ask(f"/api/v1/compare?a={a}&b={b}").json["first"]["nodes"]
    page = site.ask(f"/compare?a={a}&b={b}").text

    assert "<sun>" in node["prompt"]["a"]
    assert '<th scope="row">tell prompt</th>' in page
    assert "&lt;sun&gt;</del>" in page
    assert "moon</ins>" in page
    assert re.search(r'class="n">\+200 \(\+\d+%\)</td>', page)


def test_long_comparisons_are_given_in_parts(engine: Engine, site: ServedSite) -> None:
    graph = "start: z\nnodes: {z: {type: end, output: done}}"
    state = {f"k{number}": "word " * 1_000 for number in range(300)}
    a, b = (engine.finish(graph, state=each).run_id for each in (state, {}))
    for run_id, nodes in ((a, ("x", "y", "y")), (b, ("y", "x", "x"))):
        history = run_key("history", run_id)
        last = json.loads(unpack(engine.redis.lindex(history, -1)))
        steps = [{**last, "step": n, "nodes": {nodes[n % 3]: {"ms": 1}}} for n in range(2, 3_000)]
        engine.redis.rpush(history, *map(json.dumps, steps))

    where = f"/compare?a={a}&b={b}"
    page, document = site.ask(where), site.ask(f"/api/v1{where}")
    rest = site.ask(f"/api/v1{where}&from={document.json['next']}&limit=10").json
    file = site.ask(f"{where}&download=1")

    assert max(len(page.text), len(document.text)) < 1_000_000
    shown, everything = document.json, file.json
    assert (len(shown["nodes"]), shown["next"], shown["more"]["removed"]) == (100, 100, 200)
    assert (len(rest["nodes"]), rest["next"]) == (10, 110)
    assert [*shown["nodes"], *rest["nodes"]] == everything["nodes"][:110]
    assert shown["state"]["removed"]["k0"] == {"text": state["k0"][:1_000], "left_out": 4_000}
    assert everything["state"]["removed"] == state
    for side in "ab":
        steps = [node["step"][side] for node in everything["nodes"]]
        assert sorted(step for step in steps if step is not None) == list(range(1, 3_000))
    assert "Download all as JSON" in page.text
    assert file.headers["Content-Disposition"].startswith("attachment")
    assert site.ask(f"/api/v1{where}&limit=101").status == 400
