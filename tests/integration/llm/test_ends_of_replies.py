"""Replies that end before the model is done, and replies that are no answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.runs.events import ReplyCut, RetryScheduled
from sleipnir.scheduler.runs.history import node_times
from sleipnir.scheduler.runs.model import Run
from tests.support.conversations import results
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Reply, calls, says

TOOLS = '''
def note(text: str) -> None:
    """Appends to a file."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
'''
GRAPH = """
model: openai:m
{top}
start: ask
nodes:
  ask: {{type: llm, prompt: "Do it.", max_attempts: 3, next: done, fallback: failed, {node}
         state_updates: {{said: "{{{{output}}}}"}}}}
  done: {{type: end, output: "{{{{said}}}}"}}
  failed: {{type: end, output: "failed: {{{{said}}}}"}}
"""
CUT = Reply(text="The price is 12", finish="length", completion_tokens=4)
CUT_CALL = Reply(calls=[{"name": "note", "arguments": '{"text": "Pay 12"}'}], finish="max_tokens")
BROKEN_CALL = Reply(calls=[{"name": "note", "arguments": '{"text": "Pay 12'}], finish="length")
SCHEMA = "output_schema: {type: integer}"
ADVICE = "LLM node failed: the reply was cut off after 4 tokens; raise max_tokens"


def finish(engine: Engine, node: str = "", top: str = "", **request: Any) -> Run:
    graph = GRAPH.format(node=node and f"{node},", top=top)
    return engine.finish(graph, {"tools.py": TOOLS}, **request)


def cut(engine: Engine, run: Run) -> dict[str, int]:
    return {row.node: row.counts.cut for row in node_times(engine.queries.checkpoints(run.run_id))}


def test_a_text_that_is_cut_off_is_kept_and_says_so(engine: Engine, server: ModelServer) -> None:
    server.script.add(CUT)

    run = finish(engine, "cache: true")

    assert run.output == "The price is 12"
    assert engine.events(run.run_id, ReplyCut) == [ReplyCut("ask", 4)]
    assert cut(engine, run) == {"ask": 1, "done": 0}


def test_cut_replies_of_a_map_count_for_its_branch(engine: Engine, server: ModelServer) -> None:
    server.when("a", says("whole"))
    server.when(lambda _: True, CUT)
    graph = """
model: openai:m
initial_state: {list: [a, b, c]}
start: each
nodes:
  each: {type: map, over: "{{list}}", as: x, branch: ask, collect_into: all, next: done}
  ask: {type: llm, prompt: "{{x}}"}
  done: {type: end, output: "{{all}}"}
"""

    run = engine.finish(graph)

    assert json.loads(run.output or "") == ["whole", CUT.text, CUT.text]
    assert cut(engine, run) == {"each": 0, "ask": 2, "done": 0}


def test_what_is_cut_off_is_kept_by_no_cache(engine: Engine, server: ModelServer) -> None:
    server.script.add(CUT, says("The price is 1234."))
    finish(engine, "cache: true")

    assert finish(engine, "cache: true").output == "The price is 1234."


@pytest.mark.parametrize(
    ("node", "top"), [("on_cut: fail", ""), ("", "on_cut: fail"), (SCHEMA, "on_cut: accept")]
)
def test_a_text_that_is_needed_whole_fails_its_node_at_once(
    engine: Engine, server: ModelServer, node: str, top: str
) -> None:
    server.script.add(Reply(text="12", finish="length", completion_tokens=4))

    run = finish(engine, node, top)

    assert run.output == f"failed: {ADVICE}"
    assert len(server.requests) == 1


def test_thoughts_that_reach_the_limit_are_no_blank_reply(
    engine: Engine, server: ModelServer
) -> None:
    thoughts = {"reasoning_content": "Let me see"}
    server.script.add(Reply(text="", finish="MAX_TOKENS", said=thoughts, completion_tokens=4))

    assert finish(engine).output == f"failed: {ADVICE}"
    assert len(server.requests) == 1


def test_an_extractors_reply_that_is_cut_off_is_no_value(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("It is 1234."), Reply(text="12", finish="length", completion_tokens=4))

    run = finish(engine, SCHEMA)

    assert run.output == f"failed: {ADVICE.replace('the reply', 'structured output: the reply')}"


@pytest.mark.parametrize("first", [CUT_CALL, BROKEN_CALL])
def test_no_call_of_a_cut_reply_is_carried_out_and_the_model_is_told(
    engine: Engine, server: ModelServer, tmp_path: Path, first: Reply
) -> None:
    server.script.add(first, calls(("note", {"text": "Pay 1234"})), says("Noted."))

    run = finish(engine, "tools: [note]", workdir=str(tmp_path))

    assert run.output == "Noted."
    assert (tmp_path / "notes.txt").read_text() == "Pay 1234\n"
    refused, _ = results(server, "Do it.")
    assert "the reply was cut off after 5 tokens" in json.loads(refused)["tool_call_error"]
    sent = server.requests[1].messages[-2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) in ({"text": "Pay 12"}, {})


def test_calls_that_are_cut_off_again_fail_the_node(engine: Engine, server: ModelServer) -> None:
    server.script.add(CUT_CALL, BROKEN_CALL)

    run = finish(engine, "tools: [note]")

    assert run.output == f"failed: {ADVICE.replace('4', '5')}"
    assert engine.events(run.run_id, RetryScheduled) == []


@pytest.mark.usefixtures("each_client")
@pytest.mark.parametrize("text", ["", "I"])
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"finish": "content_filter"}, "stopped by the provider's content filter"),
        ({"finish": "SAFETY"}, "stopped by the provider's content filter"),
        ({"said": {"refusal": "I timed out."}}, "the model refused: I timed out."),
    ],
)
def test_a_refusal_is_no_answer_and_not_repeated(
    engine: Engine, server: ModelServer, text: str, end: dict[str, Any], reason: str
) -> None:
    server.script.add(Reply(text=text, **end))

    run = finish(engine, "model: 'openai:m,openai:n'", streamed=text != "")

    assert run.output == f"failed: LLM node failed: {reason}"
    assert len(server.requests) == 1


def test_a_call_that_a_filter_stopped_is_not_carried_out(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(Reply(calls=CUT_CALL.calls, finish="content_filter"))

    run = finish(engine, "tools: [note]")

    assert "content filter" in (run.output or "")
    assert len(server.requests) == 1


AGENT = "model: openai:m\nauto_continue: true\n"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(text="I", finish="content_filter"), "stopped by the provider's content filter"),
        (Reply(said={"refusal": "No."}), "the model refused: No."),
        (
            Reply(text="", finish="length"),
            "the reply was cut off after 5 tokens; "
            "ask for less at once, or choose a model with longer replies",
        ),
    ],
)
def test_an_agents_turn_without_an_answer_fails_its_run_at_once(
    engine: Engine, server: ModelServer, reply: Reply, reason: str
) -> None:
    server.script.add(reply)

    run_id = engine.submit_normal(AGENT, prompt="Go.")
    engine.drive()

    error = engine.run(run_id).failure
    assert error is not None
    assert (error.code, error.message) == ("R601", f"the model call failed: {reason}")
    assert len(server.requests) == 1


def test_an_agent_is_told_once_that_its_calls_were_cut_off(
    engine: Engine, server: ModelServer
) -> None:
    add = {"name": "todo__add", "arguments": '{"task": "a"}'}
    cut_call, whole = Reply(calls=[add], finish="length"), Reply(calls=[add])
    server.script.add(cut_call, whole, cut_call, cut_call)

    run_id = engine.submit_normal(AGENT, prompt="Go.")
    engine.drive()

    error = engine.run(run_id).failure
    assert error is not None
    assert (error.code, len(server.requests)) == ("R601", 4)
    first, second, third = map(json.loads, results(server, "Go."))
    assert "cut off" in first["tool_call_error"]
    assert "tool_call_error" not in second
    assert "cut off" in third["tool_call_error"]


def test_a_summary_that_was_cut_off_replaces_no_session(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("Hello."), Reply(text="Summ", finish="length"))

    run_id = engine.submit_normal(AGENT + "compression_threshold: 1\n", session="ada", prompt="Hi.")
    engine.drive()

    assert engine.run(run_id).output == "Hello."
    assert "summary" not in engine.queries.state(run_id)
    warnings = [
        text
        for entry in engine.queries.follow(run_id, block=False)
        for text in getattr(entry.event, "warnings", ())
    ]
    assert any("not compressed: the reply was cut off" in text for text in warnings)
