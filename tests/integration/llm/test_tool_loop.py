"""The tool loop of llm nodes, with real tool processes and a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.errors import AnswerRefused
from sleipnir.scheduler.runs.events import ToolCalled
from sleipnir.scheduler.runs.model import GuardedCall
from sleipnir.scheduler.store.audit.log import AuditLog
from sleipnir.scheduler.store.keys import run_key
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, calls, fails, says
from tests.support.redis_server import RedisServer

TOOLS = '''
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def key() -> str:
    """Says what key it got."""
    import os

    return os.environ["SLEIPNIR_IDEMPOTENCY_KEY"]


def leak() -> str:
    """Fails, and says too much."""
    raise SystemExit("refused: sk-0123456789abcdef" + 10_000 * "!")


def burst() -> str:
    """Fails."""
    raise SystemExit("out of order")


def note(text: str) -> None:
    """Appends to a file."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")


def wipe(what: str) -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard(f"Really wipe {what}?")
    return f"wiped {what}"
'''
GRAPH = """
model: openai:m
start: ask
nodes:
  ask: {type: llm, prompt: "Do it.", next: done, state_updates: {said: "{{output}}"}, %s}
  done: {type: end, output: "{{said}}"}
"""


def submit(engine: Engine, fields: str, workdir: Path | None = None, **request: Any) -> str:
    where = None if workdir is None else str(workdir)
    return engine.submit(GRAPH % fields, {"tools.py": TOOLS}, workdir=where, **request)


def results(server: ModelServer, request: int = -1) -> list[Any]:
    """The values of the tool messages that a request carries."""
    messages = server.requests[request].messages
    return [message["content"] for message in messages if message["role"] == "tool"]


def names(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[0].body["tools"]]


def test_a_result_goes_back_to_the_model_and_all_texts_are_the_output(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("add", {"a": 2, "b": 3}), text="Let me see."), says("It is 5."))

    run_id = submit(engine, "tools: [add]")
    engine.drive()

    assert engine.run(run_id).output == "Let me see.\nIt is 5."
    assert results(server) == ["5"]
    assistant, tool = server.requests[1].messages[-2:]
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"]
    assert_consistent(engine.redis, runs=1)


def test_a_node_is_offered_what_it_lists_and_nothing_else(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("hello"))

    submit(engine, "tools: [note, add]")
    engine.drive()

    assert names(server) == ["note", "add"]


def test_a_node_without_tools_is_offered_none(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("hello"))

    submit(engine, "tools: []")
    engine.drive()

    assert "tools" not in server.requests[0].body


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("wipe", {"what": "it"}), "there is no tool 'wipe'"),
        (("add", "{broken"), "not valid JSON"),
        (("add", "[1, 2]"), "not a JSON object"),
        (("add", {"a": 1}), "missing required argument 'b'"),
        (("burst", {}), "out of order"),
    ],
)
def test_a_call_that_fails_is_a_result_the_model_sees(
    engine: Engine, server: ModelServer, call: tuple[str, Any], said: str
) -> None:
    server.script.add(calls(call), says("I see."))

    run_id = submit(engine, "tools: [add, burst]")
    engine.drive()

    assert engine.run(run_id).output == "I see."
    (result,) = results(server)
    assert "tool_call_error" in json.loads(result)
    assert said in result


def test_arguments_may_be_a_string_that_holds_an_object(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("add", json.dumps('{"a": 1, "b": 1}'))), says("done"))

    submit(engine, "tools: [add]")
    engine.drive()

    assert results(server) == ["2"]


def test_calls_of_one_turn_keep_their_order(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    order = [str(number) for number in range(4)]
    server.script.add(calls(*(("note", {"text": text}) for text in order)), says("done"))

    submit(engine, "tools: [note]", tmp_path)
    engine.drive()

    assert (tmp_path / "notes.txt").read_text().split() == order
    assert results(server) == ["DONE"] * 4


def test_calls_of_two_turns_with_one_id_have_keys_of_their_own(
    engine: Engine, server: ModelServer
) -> None:
    call = {"id": "call_0", "name": "key", "arguments": {}}
    server.script.add(Reply(calls=[call]), Reply(calls=[call]), says("Done."))

    submit(engine, "tools: [key]")
    engine.drive()

    first, second = results(server)
    assert first != second


def test_what_a_failed_tool_said_is_narrated_masked_and_in_short(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("leak", {})), says("I see."))

    run_id = submit(engine, "tools: [leak]")
    engine.drive()

    (called,) = engine.events(run_id, ToolCalled)
    failure = called.failure or ""
    assert "refused: ***!" in failure
    assert len(failure) < 3_000


def test_calls_beyond_the_limit_are_refused_and_the_first_carried_out(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    engine.configure(calls_limit=3)
    server.script.add(calls(*[("note", {"text": str(n)}) for n in range(8)]), says("done"))

    run_id = submit(engine, "tools: [note]", tmp_path)
    engine.drive()

    assert engine.run(run_id).output == "done"
    assert (tmp_path / "notes.txt").read_text().split() == ["0", "1", "2"]
    refused = [result for result in results(server) if "tool_call_error" in result]
    assert (len(results(server)), len(refused)) == (8, 5)
    assert "only the first 3 calls of a reply are executed (calls_limit)" in refused[0]
    told = engine.events(run_id, ToolCalled)
    assert [event.tool for event in told] == ["5 more", "note", "note", "note"]


def test_a_conversation_ends_at_its_limit_and_what_it_used_counts(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(conversation_limit_bytes=50_000)
    server.when("", calls(("burst", {}), text="x" * 8_000))

    run_id = submit(engine, "tools: [burst], max_iterations: 50, max_attempts: 2")
    engine.drive()

    run = engine.run(run_id)
    assert run.output == (
        "LLM node failed: the conversation is larger than 50000 bytes (conversation_limit_bytes)"
    )
    assert len(server.requests) == 7
    assert run.usage.prompt_tokens == 70
    assert_consistent(engine.redis, runs=1)


def test_only_an_equal_call_with_the_same_id_is_the_same_call(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    twice = [{"name": "note", "arguments": {"text": text}, "id": "same"} for text in "aba"]
    server.script.add(Reply(calls=twice), says("done"))

    submit(engine, "tools: [note]", tmp_path)
    engine.drive()

    assert (tmp_path / "notes.txt").read_text() == "a\nb\n"
    assert [len(m["tool_calls"]) for m in server.requests[1].messages if "tool_calls" in m] == [2]


def test_the_last_turn_carries_out_nothing(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    server.script.add(*[calls(("note", {"text": "x"}))] * 3)

    run_id = submit(engine, "tools: [note], max_iterations: 3", tmp_path)
    engine.drive()

    output = engine.run(run_id).output
    assert output is not None
    assert output.startswith("LLM node failed: hit max_iterations (3)")
    assert (tmp_path / "notes.txt").read_text() == "x\n" * 2


def test_no_text_in_any_turn_is_a_failure(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1})), says(""))

    run_id = submit(engine, "tools: [add]")
    engine.drive()

    assert engine.run(run_id).output == "LLM node failed: produced no output"


def test_another_attempt_is_a_fresh_conversation_and_its_calls_run_again(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    once = calls(("note", {"text": "x"}))
    server.script.add(once, fails(429, "slow down"), once, says("done"))

    run_id = submit(engine, "tools: [note], max_attempts: 2", tmp_path)
    engine.drive()
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "done"
    assert len(server.requests[2].messages) == 1
    assert (tmp_path / "notes.txt").read_text() == "x\n" * 2
    assert engine.run(run_id).usage.prompt_tokens == 30
    assert_consistent(engine.redis, runs=1)


def test_usage_of_all_turns_is_the_node_s(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1})), says("done"))

    run_id = submit(engine, "tools: [add]")
    engine.drive()

    checkpoint = engine.queries.history(run_id)[1]
    assert checkpoint.nodes["ask"]["usage"][:2] == [20, 10]
    assert engine.run(run_id).usage.prompt_tokens == 20


def test_each_call_of_a_model_is_logged_with_what_it_used(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1})), says("done"))

    run_id = submit(engine, "tools: [add]")
    engine.drive()

    logged = [e["text"] for e in engine.queries.logs(run_id) if e["stream"] == "usage"]
    assert logged == ["openai:m: 10 tokens in, 5 out, price unknown"] * 2


# ---- crashes


class Killed(BaseException):
    """Stands for the death of a worker: nothing handles it."""


def dying_after(engine: Engine, monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """The next worker dies when the conversation has that many entries."""
    record = engine.store.visits.record_turn
    done = 0

    def record_and_die(*arguments: Any, **options: Any) -> None:
        nonlocal done
        record(*arguments, **options)
        done += 1
        if done == entries:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(engine.store.visits, "record_turn", record_and_die)
        with pytest.raises(Killed):
            engine.drive()
    engine.clock.move(engine.store.settings.lease_s + 1)
    engine.tick()


@pytest.mark.parametrize("entries", [1, 2, 3, 4])
def test_a_crash_asks_nothing_twice_and_repeats_no_finished_call(
    engine: Engine,
    server: ModelServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entries: int,
) -> None:
    both = calls(("note", {"text": "a"}), ("note", {"text": "b"}))
    server.script.add(both, calls(("note", {"text": "c"})), says("done"))

    run_id = submit(engine, "tools: [note]", tmp_path)
    dying_after(engine, monkeypatch, entries)
    engine.drive()

    assert engine.run(run_id).output == "done"
    assert len(server.requests) == 3
    assert (tmp_path / "notes.txt").read_text() == "a\nb\nc\n"
    assert results(server) == ["DONE"] * 3
    assert_consistent(engine.redis, runs=1)


def test_a_finished_run_keeps_no_conversation(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1})), says("done"))

    run_id = submit(engine, "tools: [add]")
    engine.drive()

    assert engine.redis.keys(run_key("turns", run_id) + "*") == []


# ---- guarded tools


def guarded(engine: Engine, server: ModelServer, **request: Any) -> str:
    engine.configure(auto_confirm=False)
    server.script.add(calls(("wipe", {"what": "it"})), says("done"))
    run_id = submit(engine, "tools: [wipe]", **request)
    engine.drive()
    return run_id


def answer_guard(engine: Engine, run_id: str, text: str) -> None:
    (question,) = engine.queries.questions(run_id)
    engine.client.answer(run_id, text, question_id=question.question_id)


def test_a_guarded_call_parks_until_a_person_agrees(engine: Engine, server: ModelServer) -> None:
    run_id = guarded(engine, server)

    waiting = engine.run(run_id)
    (question,) = engine.queries.questions(run_id)
    engine.client.answer(run_id, "Y", question_id=question.question_id)
    engine.drive()

    assert waiting.status == "waiting"
    assert (question.kind, question.text) == ("confirm", "Really wipe it?")
    assert question.guarded_call == GuardedCall("wipe", {"what": "it"})
    assert engine.run(run_id).output == "done"
    assert results(server) == ['{"output":"wiped it"}']
    assert len(server.requests) == 2
    assert_consistent(engine.redis, runs=1)


@pytest.mark.parametrize("word", ["no", "N", "", "  "])
def test_a_person_may_decline(engine: Engine, server: ModelServer, word: str) -> None:
    run_id = guarded(engine, server)

    answer_guard(engine, run_id, word)
    engine.drive()

    assert engine.run(run_id).output == "done"
    assert "declined by a person" in results(server)[0]


def test_consent_is_for_one_call_and_names_it(engine: Engine, server: ModelServer) -> None:
    engine.configure(auto_confirm=False)
    again = calls(("wipe", {"what": "it"}))  # a call like the first is another call all the same
    server.script.add(again, again, calls(("wipe", {"what": "that"})), says("done"))
    run_id = submit(engine, "tools: [wipe]")
    engine.drive()
    (first,) = engine.queries.questions(run_id)
    with pytest.raises(AnswerRefused, match=r"(?s)must name.*what: it.*--question"):
        engine.client.answer(run_id, "yes")
    with pytest.raises(AnswerRefused, match="must name"):
        engine.client.answer(run_id, "yes", "ask")
    engine.client.answer(run_id, "yes", question_id=first.question_id)
    engine.drive()

    with pytest.raises(AnswerRefused, match="not open"):
        engine.client.answer(run_id, "yes", question_id=first.question_id)
    with pytest.raises(AnswerRefused, match="answered or withdrawn"):
        engine.client.answer_question(first, "yes")
    answer_guard(engine, run_id, "no")
    engine.drive()
    (third,) = engine.queries.questions(run_id)

    assert third.guarded_call == GuardedCall("wipe", {"what": "that"})
    assert results(server) == ['{"output":"wiped it"}', *results(server)[1:]]
    assert "declined by a person" in results(server)[1]


def test_an_answer_that_is_neither_yes_nor_no_is_refused(
    engine: Engine, server: ModelServer
) -> None:
    run_id = guarded(engine, server)

    with pytest.raises(AnswerRefused, match="expected yes or no"):
        answer_guard(engine, run_id, "perhaps")


def test_the_audit_log_tells_who_consented_to_what(
    engine: Engine, server: ModelServer, redis_server: RedisServer
) -> None:
    run_id = guarded(engine, server)
    (question,) = engine.queries.questions(run_id)

    at = ["--redis", redis_server.url, "--question", question.question_id]
    done = CliRunner().invoke(cli, ["answer", run_id, "y", *at], env={"SLEIPNIR_USER": "ann@desk"})

    act = AuditLog(engine.redis).newest(1).entries[0].act
    assert done.exit_code == 0
    assert (act.act, act.target, act.detail) == ("answer", question.question_id, "yes")
    assert (act.who, act.via, act.call) == ("ann@desk", "cli", "wipe\n  what: it")


def test_nobody_is_asked_where_nobody_is(engine: Engine, server: ModelServer) -> None:
    run_id = guarded(engine, server, headless=True)

    assert engine.run(run_id).output == "done"
    assert "no person is available" in results(server)[0]


def test_guarded_tools_of_graphs_go_ahead_by_default(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("wipe", {"what": "it"})), says("done"))

    submit(engine, "tools: [wipe]")
    engine.drive()

    assert results(server) == ['{"output":"wiped it"}']
