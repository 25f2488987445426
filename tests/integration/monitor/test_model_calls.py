"""What runs spent, by node and model, and what their models were sent: on pages, API and CLI."""

from __future__ import annotations

import re
from html import unescape
from random import Random
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.spending import sum_of
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.queries.lists import ChildRows
from sleipnir.scheduler.views.documents import run_document, show_document
from sleipnir.scheduler.views.timeline import times_of_nodes
from tests.support.conversations import converses
from tests.support.engine import Clock, Engine
from tests.support.invariants import assert_consistent
from tests.support.knowledge import BY_WORDS, PETS
from tests.support.model_server import ModelServer, calls, fails, says
from tests.support.noise import noise
from tests.support.redis_server import RedisServer
from tests.support.site import ServedSite
from tests.support.supervising import collects_all, spawns

PRICES = {
    "models": {
        "prices": {
            "openai:a": {"prompt": 1.0, "completion": 3.0},
            "openai:b": {"prompt": 0.7, "completion": 0.1},
        }
    }
}
MAP = """
model: openai:a
start: each
nodes:
  each: {type: map, over: "{{words}}", as: word, branch: tag, collect_into: found, next: sum}
  tag: {type: llm, prompt: "Tag {{word}}.", max_attempts: 1}
  sum: {type: llm, model: "openai:b", prompt: "Sum up.", max_attempts: 1, next: z}
  z: {type: end}
"""
ASK = """
model: openai:a
settings: {tolerate_failures: false}
variables: [{name: pin, description: A secret., secret: true, default: ""}]
start: ask
nodes:
  ask: {type: llm, instructions: Be brief., prompt: "Do {{initial_prompt}}.", max_attempts: 1,
        next: z}
  z: {type: end}
"""


def model_calls(site: ServedSite, run_id: str, query: str = "") -> Any:
    return site.ask(f"/api/v1/runs/{run_id}/model?{query}").json


def test_sums_are_of_all_calls_also_of_those_no_longer_stored(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.configure(**PRICES, transcript_limit_bytes=64 * 1024)
    server.when("Tag", says(noise(8_000, 1), prompt_tokens=7, completion_tokens=11))
    server.when("Sum", says("all", prompt_tokens=3, completion_tokens=2))

    # Nothing of them is alike, as what is stored is compressed.
    words = [Random(n).randbytes(4_000).hex() for n in range(20)]

    run = engine.finish(MAP, state={"words": words})
    found = model_calls(site, run.run_id)
    page = site.ask(f"/runs/{run.run_id}/model").text

    assert found["stored_calls"] < 21
    assert [(row["node"], row["model"], row["calls"]) for row in found["sums"]] == [
        ("sum", "openai:b", 1),
        ("tag", "openai:a", 20),
    ]
    tag = found["sums"][1]["usage"]
    assert (tag["prompt_tokens"], tag["completion_tokens"]) == (140, 220)
    assert tag["cost_usd"] == pytest.approx(140e-6 + 660e-6)
    assert sum_of(run.spent.values()).usage == run.usage
    assert "Spent by the whole run so far" in page
    assert f"<b>{run.usage.prompt_tokens}</b> tokens in" in page
    assert "<b>21</b> calls" in page
    only = model_calls(site, run.run_id, "node=sum")["sums"]
    assert [row["node"] for row in only] == ["sum"]
    (item,) = model_calls(site, run.run_id, "node=tag&item=0")["sums"]
    assert item["usage"] == {**Usage(7, 11, 40e-6, 0).to_json()}
    assert "Spent by item 0 in its map" in site.ask(f"/runs/{run.run_id}/model?item=0").text
    nodes = {
        node["id"]: node for node in site.ask(f"/api/v1/runs/{run.run_id}/graph").json["nodes"]
    }
    assert nodes["tag"]["usage"] == tag


def test_a_call_says_how_the_model_was_told_the_schema(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.script.add(says('{"n": 1}'))
    asks = ASK.replace("max_attempts: 1", "structured: native, output_schema: {type: object}")

    run = engine.finish(asks, prompt="it")
    (visit,) = model_calls(site, run.run_id)["visits"]
    page = site.ask(f"/runs/{run.run_id}/model").text

    (exchange,) = visit["exchanges"]
    assert exchange["native"] is True
    assert [each["content"] for each in exchange["messages"]] == ["Be brief.", "Do it."]
    assert "schema in response_format" in page


def test_what_a_refused_call_was_sent_is_kept(
    engine: Engine, site: ServedSite, server: ModelServer, redis_server: RedisServer
) -> None:
    server.script.add(fails(400, "This model's maximum context length is 8 tokens, hush-4711"))

    run = engine.finish(ASK, prompt="it with hush-4711", variables={"pin": "hush-4711"})
    (visit,) = model_calls(site, run.run_id)["visits"]
    page = site.ask(f"/runs/{run.run_id}/model").text
    logs = ["logs", "--redis", redis_server.url, "--transcripts", run.run_id]
    lines = CliRunner().invoke(cli, logs).stdout.splitlines()

    (exchange,) = visit["exchanges"]
    assert visit["failed"]
    assert [each["content"] for each in exchange["messages"]] == ["Be brief.", "Do it with ***."]
    assert exchange["reply"] is None
    assert (exchange["error"]["kind"], exchange["error"]["status"]) == ("too_long", 400)
    assert "maximum context length is 8 tokens, ***" in exchange["error"]["message"]
    assert "Do it with ***." in page
    assert "maximum context length is 8 tokens, ***" in page
    assert "1 ask user | Do it with ***." in lines
    assert any("1 ask failed | " in line and "maximum context" in line for line in lines)


def test_every_failure_of_a_call_keeps_what_was_sent(engine: Engine, server: ModelServer) -> None:
    server.script.add(*[fails(status, "no") for status in (401, 413, 500)])

    for _ in range(3):
        run = engine.finish(ASK)

        (entry,) = engine.queries.transcripts(run.run_id)
        assert entry["exchanges"][0]["messages"][-1]["content"] == "Do ."
        assert "no" in entry["exchanges"][0]["error"]["message"]


def test_conversations_of_normal_agents_are_shown_turn_by_turn(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    tools = 'def look(at: str) -> str:\n    """Looks."""\n    return f"{at} is red"\n'
    config = "model: openai:a\ninstructions: You look.\n"
    server.script.add(calls(("look", {"at": "the door"})), says("It is <red>."))

    run_id = engine.submit_normal(config, {"tools.py": tools}, prompt="Which colour?")
    engine.drive()
    found = model_calls(site, run_id)
    page = site.ask(f"/runs/{run_id}").text

    first, second = found["visits"]
    (asked,), (told,) = first["exchanges"], second["exchanges"]
    assert [each["role"] for each in asked["messages"]] == ["system", "user"]
    assert asked["reply"]["tool_calls"][0]["function"]["name"] == "look"
    assert [each["role"] for each in told["messages"]] == ["tool"]
    assert (asked["earlier"], told["earlier"]) == (0, 3)
    assert found["sums"][0]["calls"] == 2
    assert "Which colour?" in page
    assert "the door is red" in page
    assert "It is &lt;red&gt;." in page
    assert page.count('<section class="thread') == 1
    (row,) = re.findall(r'<details id="[^"]+"\s+class="tool">.*?</summary>', page, re.DOTALL)
    assert "(at: &quot;the door&quot;)" in row
    assert "→ the door is red" in row
    assert re.search(r'<span class="took">[\d.]+ s</span>', row)
    second_only = site.ask(f"/runs/{run_id}/model?step=2").text
    assert "After 3 earlier messages" in second_only


def test_a_failed_turn_keeps_the_whole_conversation(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    tools = 'def look(at: str) -> str:\n    """Looks."""\n    return f"{at} is red"\n'
    engine.configure(transcripts="failed")
    server.script.add(calls(("look", {"at": "it"})), fails(400, "maximum context length"))

    run_id = engine.submit_normal("model: openai:a\n", {"tools.py": tools}, prompt="Look.")
    engine.drive()
    (visit,) = model_calls(site, run_id)["visits"]

    (exchange,) = visit["exchanges"]
    roles = [each["role"] for each in exchange["messages"]]
    assert roles[-3:] == ["user", "assistant", "tool"]
    assert exchange["earlier"] == 0


def test_a_refused_turn_repeats_the_conversation_only_on_request(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    tools = 'def look(at: str) -> str:\n    """Looks."""\n    return f"{at} is red"\n'
    server.script.add(calls(("look", {"at": "it"})), fails(400, "maximum context length"))

    run_id = engine.submit_normal("model: openai:a\n", {"tools.py": tools}, prompt="Look.")
    engine.drive()
    page = site.ask(f"/runs/{run_id}/model").text.partition('class="thread')[2]
    failed = model_calls(site, run_id, "failed=1")["visits"]
    only = site.ask(f"/runs/{run_id}/model?failed=1").text

    assert page.index("→ it is red") < page.index("maximum context") < page.index("What was sent")
    assert [visit["step"] for visit in failed] == [2]
    assert "no reply" in only
    assert "→ it is red" not in only.partition("What was sent")[0]


def test_child_runs_and_long_texts_are_a_link_away(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.write_normal("boss", "model: openai:a\ncan_spawn_agents: true\n")
    engine.write_normal("worker", "model: openai:b\ninstructions: You work.\n")
    long = "\n".join(f"line {number} <i>" for number in range(1_000))
    converses(server, "Lead.", spawns("Dig."), collects_all, says(long))
    converses(server, "Dig.", says("Dug."))

    run = engine.finish(GRAPH_OF_AGENTS)
    (boss,) = engine.queries.children(run.run_id)
    (worker,) = engine.queries.children(boss.run_id)
    page = site.ask(f"/runs/{boss.run_id}").text
    link, size = re.findall(r'<a data-whole href="([^"]+)">Show all\s+([^<]+)</a>', page)[-1]
    whole = site.ask(unescape(link.partition("#")[0])).text

    child = page.partition('<p class="child">')[2].partition("</p>")[0]
    assert f"/runs/{worker.run_id}" in child
    assert "succeeded" in child
    assert size == "13 KB"
    assert "line 999" not in page.partition('class="thread"')[2]
    assert "line 999 &lt;i&gt;" in whole.partition('class="thread"')[2]


GRAPH_OF_AGENTS = """
start: lead
nodes:
  lead: {type: agent, agent: boss, prompt: Lead., next: done}
  done: {type: end}
"""


def test_spending_of_child_runs_counts_for_the_node_that_started_them(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.write_normal("boss", "model: openai:a\ncan_spawn_agents: true\n")
    engine.write_normal("worker", "model: openai:b\ninstructions: You work.\n")
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Led."))
    converses(server, "Dig.", says("Dug."))

    run = engine.finish(GRAPH_OF_AGENTS)
    rows = [
        (row["node"], row["model"], row["calls"]) for row in model_calls(site, run.run_id)["sums"]
    ]

    assert rows == [("lead", "openai:a", 3), ("lead", "openai:b", 1)]
    (boss,) = engine.queries.children(run.run_id)
    assert [spent.calls for spent in boss.spent.values()] == [3, 1]
    assert_consistent(engine.redis, runs=3)


def test_a_retry_adds_to_what_was_spent_and_keeps_failed_conversations(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    graph = ASK.replace("max_attempts: 1,", "max_attempts: 1, output_schema: {type: integer},")
    server.script.add(*(says(f"no number {n}") for n in range(6)))
    run = engine.finish(graph)

    engine.client.retry(run.run_id)
    engine.drive()
    found = model_calls(site, run.run_id)

    assert [row["calls"] for row in found["sums"]] == [len(server.requests)]
    assert [(each["try"], each["failed"]) for each in found["visits"]] == [(1, True), (2, True)]
    assert ">try 2</span>" in site.ask(f"/runs/{run.run_id}/model").text


def test_what_earlier_versions_counted_is_told_apart(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.script.add(says("fine"))
    run = engine.finish(ASK)
    key = run_key("run", run.run_id)
    engine.redis.hincrby(key, "prompt_tokens", 5)

    rows = model_calls(site, run.run_id)["sums"]

    assert [(row["node"], row["usage"]["prompt_tokens"]) for row in rows] == [
        ("ask", 10),
        (None, 5),
    ]


RETRYING = """
model: openai:a
settings: {tolerate_failures: false}
initial_state: {topic: rain}
start: first
nodes:
  first: {type: llm, prompt: "Begin.", max_attempts: 1, next: second}
  second: {type: llm, prompt: "Tell of {{topic}}.", max_attempts: 2, next: z}
  z: {type: end}
"""


def test_the_panel_of_a_failed_node_says_what_it_did_and_spent(
    engine: Engine, site: ServedSite, server: ModelServer, clock: Clock
) -> None:
    engine.configure(**PRICES)
    server.when("Begin", says("begun"))
    server.when("rain", says("", prompt_tokens=40), fails(500, "out of order"))
    run_id = engine.submit(RETRYING)
    engine.drive()
    clock.move(60)
    engine.tick()
    engine.drive()
    run = engine.run(run_id)
    base = f"/runs/{run.run_id}"

    nodes = {node["id"]: node for node in site.ask(f"/api/v1{base}/graph").json["nodes"]}
    panel = site.ask(base).text.partition('aria-label="Node"')[2].partition("</aside>")[0]
    (row,) = [row for row in shown(engine, run_id)["nodes"] if row["id"] == "second"]

    assert run.status == "failed"
    failed = nodes["second"]
    assert (failed["state"], failed["visits"], failed["failed"]) == ("failed", 1, 1)
    assert (failed["total_s"], failed["parked_s"]) == (60.0, 60.0)
    assert (failed["usage"]["prompt_tokens"], failed["usage"]["cost_usd"]) == (40, 55e-6)
    assert '<b>Tries</b> <span class="quiet">2</span>' in panel
    assert "R014" in panel
    assert "out of order" in panel
    assert "<h4>topic</h4>" in panel
    assert "rain" in panel
    assert (row["visits"], row["failed"], row["total_s"]) == (1, 1, 60.0)
    assert row["usage"] == failed["usage"]


def test_show_lists_nodes_in_the_order_of_their_visits_with_the_one_that_failed(
    engine: Engine, server: ModelServer
) -> None:
    graph = """
    settings: {tolerate_failures: false}
    start: zebra
    nodes:
      zebra: {type: script, script: run.sh, next: ant}
      ant: {type: script, script: route.sh, next: z}
      z: {type: end}
    """
    files = {"run.sh": "echo '{}'", "route.sh": 'echo \'{"_next": "nowhere"}\''}

    run = engine.finish(graph, files)

    assert run.failure is not None
    assert run.failure.code == "R003"
    nodes = shown(engine, run.run_id)["nodes"]
    assert [(row["id"], row["visits"], row["failed"]) for row in nodes] == [
        ("zebra", 1, 0),
        ("ant", 1, 1),
    ]


def shown(engine: Engine, run_id: str) -> Any:
    """Return what `sleipnir show --json` prints of a run."""
    run = engine.run(run_id)
    times = times_of_nodes(engine.client, run)
    document = run_document(run, {}, steps=0, now_ms=0)
    return show_document(document, [], None, times, {}, ChildRows((), {}, 0))


def test_a_node_that_waits_for_its_knowledge_base_is_parked_meanwhile(
    engine: Engine, clock: Clock
) -> None:
    run_id = engine.submit(BY_WORDS, PETS, prompt="cats")
    assert engine.work_once()
    while engine.work_once():  # the build, as a run of its own
        clock.move(3)

    row, _ = shown(engine, run_id)["nodes"]

    assert (row["id"], row["total_s"] > 10) == ("look_up", True)
    assert row["parked_s"] == pytest.approx(row["total_s"], abs=1)


def test_a_models_question_is_shown_with_the_conversation_before_it(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    tools = 'def look(at: str) -> str:\n    """Looks."""\n    return f"{at} is <red>"\n'
    config = """
    model: openai:a
    instructions: Keep quiet.
    variables: [{name: pin, description: A secret., secret: true, default: hush-4711}]
    """
    server.script.add(
        calls(("look", {"at": "the door"}), text="Let me look."),
        calls(("user__ask", {"question": "Paint it?", "options": ["yes", "no"]}), text="Hm."),
    )
    run_id = engine.submit_normal(
        dedent(config), {"tools.py": tools}, prompt="Is hush-4711 red?", user="ann@desk"
    )
    engine.drive()
    (question,) = engine.inbox()

    page = site.ask(f"/inbox/{question.question_id}").text
    run = site.ask(f"/runs/{run_id}").text
    inbox = site.ask("/inbox").text

    assert page.index("Paint it?") < page.index("Is *** red?") < page.index("Let me look.")
    assert page.index("Let me look.") < page.index("the door is &lt;red&gt;") < page.index("Hm.")
    assert "Keep quiet." not in page
    assert f"/runs/{run_id}/model" in page
    assert "in the graph" not in page
    assert run.index("Let me look.") < run.index("is under way") < run.index("Hm.")
    assert "No conversations" not in run
    assert "ann@desk" in run
    assert "ann@desk" in inbox


def test_a_run_keeps_a_bounded_number_of_sums_and_counts_the_rest_together(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.when("Tag", says("x", prompt_tokens=7))
    server.when("Sum", says("all", prompt_tokens=3))
    run_id = engine.submit(MAP, state={"words": ["a", "b"]})
    assert engine.work_once()
    assert engine.work_once()
    engine.redis.hset(run_key("run", run_id), "sums", 1_000)
    engine.drive()

    rows = [
        (row["node"], row["calls"], row["usage"]["prompt_tokens"])
        for row in model_calls(site, run_id)["sums"]
    ]

    assert rows == [(None, 1, 3), ("tag", 2, 14)]
    assert_consistent(engine.redis, runs=1)
