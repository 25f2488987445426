"""A normal agent: its turns, its prompt, its tools, and how its runs end."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.events import RetryScheduled, RunEnded, RunForked, StepCommitted
from sleipnir.scheduler.runs.narration import render
from sleipnir.scheduler.store.errors import RedisError
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, Request, calls, fails, says

CONFIG = """
model: openai:m
instructions: You add.
"""
TOOLS = '''
def add(a: int, b: int) -> int:
    """Adds two numbers.

    Slowly.
    """
    return a + b


def where() -> str:
    """Says what it is told of its surroundings."""
    import os

    names = ("LLM_AGENT_NAME", "LLM_AGENT_VAR_NAME", "FROM_FILE", "AUTO_CONFIRM")
    return ",".join(os.environ.get(name, "-") for name in names)


def nothing() -> None:
    """Returns nothing."""


def wipe(what: str) -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard(f"Really wipe {what}?")
    return f"wiped {what}"
'''


def messages(server: ModelServer, request: int = -1) -> list[dict[str, Any]]:
    return server.requests[request].messages


def results(server: ModelServer) -> list[Any]:
    return [message["content"] for message in messages(server) if message["role"] == "tool"]


def offered(server: ModelServer) -> list[str]:
    """The functions of the agent itself."""
    names = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    return [name for name in names if not name.startswith(("user__", "agent__"))]


def system(server: ModelServer) -> str:
    (message,) = (each for each in messages(server) if each["role"] == "system")
    return str(message["content"])


def test_turns_go_on_until_the_model_has_no_calls_left(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(("add", {"a": 2, "b": 3}), text="Let me see."), says("It is 5.", prompt_tokens=20)
    )

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS}, prompt="2 + 3?")
    engine.drive()

    run = engine.run(run_id)
    assert (run.status, run.output) == ("succeeded", "It is 5.")
    assert run.usage.prompt_tokens == 30
    assert [message["role"] for message in messages(server)] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert messages(server)[1]["content"] == "2 + 3?"
    assert results(server) == ["5"]
    assert engine.queries.steps(run_id) == 2
    (ended,) = engine.events(run_id, RunEnded)
    assert render(ended)[0].startswith("▸ agent done in ")
    assert_consistent(engine.redis, runs=1)


def test_a_model_that_cannot_call_functions_is_offered_none(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("I only write."))

    config = "model: openai:gpt-5-chat\ninstructions: Write.\n"
    run_id = engine.submit_normal(config, {"tools.py": TOOLS})
    engine.drive()

    assert engine.run(run_id).output == "I only write."
    assert "tools" not in server.requests[0].body
    assert system(server) == "Write."
    (step,) = engine.events(run_id, StepCommitted)
    assert "cannot call functions" in step.warnings[0]


def test_a_turn_writes_what_it_adds_and_nothing_else(engine: Engine, server: ModelServer) -> None:
    turns = 6
    server.script.add(*(calls(("add", {"a": n, "b": 1})) for n in range(turns)), says("Done."))

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS}, prompt="Count.")
    engine.drive()

    first, *others = list(engine.queries.checkpoints(run_id))[1:]
    assert [len(messages) for messages in first.writes.values()] == [4]
    assert [list(each.writes) for each in others] == [[f"turn {n}"] for n in range(2, turns + 2)]
    assert [len(each.writes[f"turn {each.step}"]) for each in others] == [2] * (turns - 1) + [1]


def test_the_result_is_the_last_text_that_is_not_empty(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1}), text="It is 2."), says(""))

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()

    assert engine.run(run_id).output == "It is 2."


def test_a_call_without_a_result_is_done(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("nothing", {}), ("gone", {}), ("add", "[1]")), says("I see."))

    engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()

    done, unknown, unreadable = results(server)
    assert done == "DONE"
    assert "there is no tool 'gone'" in json.loads(unknown)["tool_call_error"]
    assert "not a JSON object" in json.loads(unreadable)["tool_call_error"]


def test_different_calls_with_one_id_are_all_carried_out(
    engine: Engine, server: ModelServer
) -> None:
    reply = calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}))
    same = [{**call, "id": "one"} for call in reply.calls]
    server.script.add(type(reply)(calls=same), says("I see."))

    engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()

    assert results(server) == ["2", "4"]
    assert [call["id"] for call in messages(server)[2]["tool_calls"]] == ["one", "call_0"]


def test_the_prompt_says_who_and_where(
    engine: Engine, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    monkeypatch.setenv("LC_ALL", "de_AT.UTF-8")
    server.script.add(calls(("add", {"a": 1, "b": 1})), says("Hello."))
    config = """
    model: openai:m
    variables: [{name: my-name, description: d}, {name: age, description: d, default: 5}]
    instructions: |
      I am {{my-name}}, {{age}}, on {{__os__}} ({{__os_family__}}, {{__os_distro__}}),
      {{__arch__}}, with {{__shell__}}, {{__locale__}}, in {{__cwd__}} at {{__now__}}.
      {{unknown}} {{SECRET}} {{age
      {{__tools__}}
    """

    variables = {"my-name": "{{age}}"}
    engine.submit_normal(
        config, {"tools.py": TOOLS}, variables=variables, workdir=str(tmp_path), prompt="{{age}}"
    )
    engine.drive()

    first = system(server)
    assert first.startswith("I am {{age}}, 5, on linux (unix, ")
    assert f"with zsh, de-AT, in {tmp_path} at 2" in first
    assert re.search(r"at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\.", first)
    assert "{{__" not in first
    assert "{{unknown}} {{SECRET}} {{age\n" in first
    assert "1. add: Adds two numbers.\n2. where: Says" in first
    assert messages(server)[1]["content"] == "{{age}}"
    assert server.requests[0].messages[0] == server.requests[1].messages[0]


def test_an_agent_without_instructions_is_told_of_its_tools(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("Hello."))

    run_id = engine.submit_normal("model: openai:m", prompt="Hi.")
    engine.drive()

    assert engine.run(run_id).output == "Hello."
    assert messages(server)[-1] == {"role": "user", "content": "Hi."}
    assert system(server).startswith("## Teammates\n")


def test_dynamic_instructions_are_made_once_and_rendered(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    server.script.add(fails(503, "rate limit"), calls(("add", {"a": 1, "b": 1})), says("Hello."))
    tools = f'''
import os
from pathlib import Path

def _instructions():
    with Path("{tmp_path}/made").open("a") as file:
        file.write("x")
    return os.environ["LLM_AGENT_FUNC"] + " for {{{{name}}}}:\\n{{{{__tools__}}}}"
''' + TOOLS.replace("def where", "def _hidden")
    config = """
    model: openai:m
    dynamic_instructions: true
    instructions: not this
    variables: [{name: name, description: d, default: Ann}]
    """

    run_id = engine.submit_normal(config, {"tools.py": tools})
    engine.drive()
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    assert system(server).startswith("_instructions for Ann:\n1. add: Adds two numbers.")
    assert offered(server) == ["add", "nothing", "wipe"]
    assert (tmp_path / "made").read_text() == "x"


@pytest.mark.parametrize(
    ("body", "said"),
    [("raise SystemExit('no luck')", "no luck"), ("return ' '", "returned no instructions")],
)
def test_dynamic_instructions_that_fail_end_the_run(
    engine: Engine, server: ModelServer, body: str, said: str
) -> None:
    tools = f"def _instructions():\n    {body}\n"

    run_id = engine.submit_normal(
        "model: openai:m\ndynamic_instructions: true", {"tools.py": tools}
    )
    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R602"
    assert said in failure.message
    assert server.requests == []


def test_tools_get_the_agent_s_environment(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("where", {})), says("Done."))
    config = CONFIG + "variables: [{name: name, description: d}]\n"

    engine.submit_normal(
        config,
        {"tools.py": TOOLS, ".env": "FROM_FILE='yes'\n"},
        variables={"name": "Ann"},
        confirmed=True,
    )
    engine.drive()

    assert json.loads(results(server)[0])["output"] == "talker,Ann,yes,true"


def test_a_guarded_tool_waits_for_a_person(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1}), ("wipe", {"what": "it"})), says("Wiped."))

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()
    (question,) = engine.inbox()
    assert (question.kind, question.node, question.agent) == ("confirm", "talker", "talker")
    assert engine.run(run_id).status == "waiting"
    engine.client.answer_question(question, "yes")
    engine.drive()

    assert engine.run(run_id).output == "Wiped."
    assert results(server) == ["2", '{"output":"wiped it"}']
    assert len(server.requests) == 2
    assert_consistent(engine.redis, runs=1)


def test_a_third_equal_call_in_a_row_is_refused(engine: Engine, server: ModelServer) -> None:
    again = calls(("add", {"a": 1, "b": 1}))
    other = calls(("add", {"b": 1, "a": 2}))
    server.script.add(again, again, again, again, other, again, says("I give up."))

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()

    assert engine.run(run_id).output == "I give up."
    third, fourth, others = results(server)[2], results(server)[3], results(server)[4:]
    alert = json.loads(third)["tool_call_loop_alert"]
    assert alert["error"]["code"] == 400
    assert "call_history" not in alert
    history = json.loads(fourth)["tool_call_loop_alert"]["call_history"]
    assert history == [{"name": "add", "parameters": {"a": 1, "b": 1}}] * 3
    assert others == ["3", "2"]


def test_equal_calls_of_one_reply_are_compared_with_those_before_it(
    engine: Engine, server: ModelServer
) -> None:
    gone, unreadable = ("gone", {}), ("gone", "[")
    server.script.add(
        calls(*[("add", {"a": 1, "b": 1})] * 5),
        calls(("add", {"b": 1, "a": 1}), unreadable),
        calls(gone, unreadable),
        calls(gone),
        calls(gone, unreadable),
        says("I give up."),
    )

    engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()

    assert results(server)[:5] == ["2"] * 5
    later = ["tool_call_loop_alert" in result for result in results(server)[5:]]
    assert later == [True, False, False, False, False, True, False]


def test_a_function_that_is_not_offered_is_no_way_around_its_switch(
    engine: Engine, server: ModelServer
) -> None:
    builtin = ("todo__add", "agent__spawn", "agent__task_list", "skill__load", "_instructions")
    server.script.add(calls(*((name, {}) for name in builtin)), says("I see."))

    run_id = engine.submit_normal(CONFIG)
    engine.drive()

    assert engine.run(run_id).output == "I see."
    errors = [json.loads(result)["tool_call_error"] for result in results(server)]
    assert errors == [
        f"there is no tool '{name}'; use only the tools that are listed" for name in builtin
    ]


def test_a_node_of_a_graph_neither_asks_nor_leads_by_functions(
    engine: Engine, server: ModelServer
) -> None:
    graph = """
    start: a
    nodes:
      a: {type: llm, model: "openai:m", prompt: p, tools: [], next: z}
      z: {type: end, output: ok}
    """
    builtin = ("user__ask", "user__select", "agent__send_message", "todo__add", "agent__spawn")
    server.script.add(calls(*((name, {"question": "?"}) for name in builtin)), says("I see."))

    assert engine.finish(graph).output == "ok"
    assert all("there is no tool" in result for result in results(server))
    assert "tools" not in server.requests[0].body


def test_a_passing_failure_is_tried_again_and_holds_no_worker(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(*[fails(429, "rate limit")] * 3, says("At last."))

    run_id = engine.submit_normal(CONFIG)
    for _ in range(4):
        engine.drive()
        engine.clock.move(300)
        engine.tick()

    assert engine.run(run_id).output == "At last."
    assert [(event.attempt, event.of) for event in engine.events(run_id, RetryScheduled)] == [
        (2, 4),
        (3, 4),
        (4, 4),
    ]


def test_a_reply_without_anything_is_asked_for_again(engine: Engine, server: ModelServer) -> None:
    server.script.add(says(""), says("Here."))

    run_id = engine.submit_normal(CONFIG)
    engine.drive()
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    run = engine.run(run_id)
    assert run.output == "Here."
    assert run.usage.prompt_tokens == 20


def test_a_lasting_failure_ends_the_run_and_a_retry_goes_on_after_the_last_turn(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1})), fails(400, "bad request"), says("2."))

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()
    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R601", None)
    assert "bad request" in failure.message
    engine.client.retry(run_id)
    engine.drive()

    assert engine.run(run_id).output == "2."
    assert len(server.requests) == 3
    assert results(server) == ["2"]


def test_a_fork_is_a_conversation_of_its_own(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(("add", {"a": 1, "b": 1})), calls(("add", {"a": 2, "b": 2})), says("4."), says("Two.")
    )

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()
    fork = engine.client.fork(run_id, step=1).run_id
    engine.drive()

    assert engine.run(run_id).output == "4."
    assert engine.run(fork).output == "Two."
    assert results(server) == ["2"]
    told = [line for event in engine.events(fork, RunForked) for line in render(event)]
    assert told == [f"▸ agent: talker (fork of {run_id} after turn 1)", "▸ turn 2"]


def test_what_was_said_cannot_be_changed(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1})), fails(400, "bad request"), says("Bye."))

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS}, prompt="Hello.")
    engine.drive()
    for refused in (
        partial(engine.client.fork, run_id, step=1, state={"a": 1}),
        partial(engine.client.fork, run_id, step=1, prompt="Bye."),
        partial(engine.client.retry, run_id, state={"a": 1}),
    ):
        with pytest.raises(SubmissionRefused, match="its conversation cannot be changed"):
            refused()
    fork = engine.client.fork(run_id, step=0, prompt="Bye.").run_id
    engine.drive()

    assert engine.run(fork).output == "Bye."
    assert messages(server)[1]["content"] == "Bye."


def test_turns_have_a_limit_if_one_is_set(engine: Engine, server: ModelServer) -> None:
    engine.configure(agent_max_turns=2)
    server.script.add(calls(("add", {"a": 1, "b": 1})), calls(("add", {"a": 2, "b": 1})))

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R603"
    assert "agent_max_turns" in failure.message
    assert engine.queries.steps(run_id) == 1


def test_a_model_that_does_not_get_on_is_stopped_and_may_be_retried(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(agent_max_stuck_turns=4)
    server.script.add(
        calls(("add", {"a": 1, "b": 1})),
        *(calls((name, {"n": n})) for n, name in enumerate(("gone", "lost", "gone", "lost"))),
    )

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R604"
    assert "4 turns in a row achieved nothing (agent_max_stuck_turns)" in failure.message
    assert "there is no tool 'lost'" in failure.message
    server.script.add(calls(("add", {"a": 2, "b": 2})), says("4."))
    engine.client.retry(run_id)
    engine.drive()
    assert engine.run(run_id).output == "4."
    assert len(server.requests) == 7


def test_being_told_to_go_on_takes_a_turn_like_any_other(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(agent_max_turns=2)
    server.script.add(calls(("todo__add", {"task": "boil"})), says("Soon."), says("Boiled."))

    run_id = engine.submit_normal(CONFIG + "auto_continue: true\n")
    engine.drive()

    assert engine.failure(run_id).code == "R603"
    assert len(server.requests) == 2


def test_a_run_past_its_deadline_is_timed_out_whoever_it_waits_for(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("wipe", {"what": "all"})))

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS}, timeout_s=60)
    engine.drive()
    assert engine.run(run_id).status == "waiting"
    engine.clock.move(60)
    engine.tick()

    failure = engine.failure(run_id)
    assert (engine.run(run_id).status, failure.code, failure.node) == ("timed_out", "R005", None)
    assert "60" in failure.message
    assert engine.inbox() == []
    assert_consistent(engine.redis, runs=1)


def test_what_a_model_inherits(engine: Engine, server: ModelServer) -> None:
    engine.configure(model="openai:default", temperature=0.3, top_p=0.9)
    server.when(lambda _: True, says("Hello."))

    engine.submit_normal("instructions: Help.")
    engine.submit_normal("{model: 'openai:own', instructions: Help.}")
    engine.submit_normal("{temperature: 0, instructions: Help.}")
    engine.drive()

    sent = [
        tuple(request.body.get(name) for name in ("model", "temperature", "top_p"))
        for request in server.requests
    ]
    assert sorted(sent, key=str) == [
        ("default", 0.0, 0.9),
        ("default", 0.3, 0.9),
        ("own", None, None),
    ]


def test_the_environment_of_the_submission_overrides_the_file(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.when(lambda _: True, says("Hello."))
    monkeypatch.setenv("TALKER_MODEL", "openai:other")
    monkeypatch.setenv("TALKER_TEMPERATURE", "0.5")
    monkeypatch.setenv("TALKER_TOP_P", "null")
    monkeypatch.setenv("TALKER_AGENT_SESSION", "evening")
    monkeypatch.setenv("TALKER_INSTRUCTIONS", "Be brief.")
    monkeypatch.setenv("TALKER_GLOBAL_TOOLS", '["get_current_time"]')
    monkeypatch.setenv("TALKER_MCP_SERVERS", '["nowhere"]')

    run_id = engine.submit_normal(CONFIG + "top_p: 0.5\nagent_session: morning\n")
    for name in ("MODEL", "TEMPERATURE", "TOP_P", "AGENT_SESSION", "INSTRUCTIONS"):
        monkeypatch.delenv(f"TALKER_{name}")
    for name in ("GLOBAL_TOOLS", "MCP_SERVERS"):
        monkeypatch.delenv(f"TALKER_{name}")
    engine.drive()

    body = server.requests[0].body
    assert (body["model"], body["temperature"], body.get("top_p")) == ("other", 0.5, None)
    assert engine.run(run_id).context.session == "evening"
    assert system(server).startswith("Be brief.")
    assert offered(server) == ["get_current_time"]
    narrated = [entry.event for entry in engine.queries.follow(run_id, block=False)]
    warnings = [text for event in narrated for text in getattr(event, "warnings", ())]
    assert any("MCP server 'nowhere' is unavailable" in text for text in warnings)


def test_another_file_may_stand_in_for_the_agent_s_own(
    engine: Engine, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script.add(says("Hello."))
    other = tmp_path / "other.yaml"
    other.write_text("model: openai:m\ninstructions: From elsewhere.\n")
    monkeypatch.setenv("TALKER_CONFIG_FILE", str(other))

    engine.submit_normal(CONFIG)
    other.unlink()
    monkeypatch.delenv("TALKER_CONFIG_FILE")
    engine.drive()

    assert system(server).startswith("From elsewhere.")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TALKER_TEMPERATURE", "hot", "TALKER_TEMPERATURE in the environment: expected a number"),
        ("TALKER_MCP_SERVERS", "a,b", "TALKER_MCP_SERVERS in the environment: expected a JSON"),
    ],
)
def test_an_override_that_cannot_be_read_is_an_error(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(InvalidAgent, match="E610") as refused:
        engine.submit_normal(CONFIG)
    assert said in str(refused.value)


def test_what_a_submission_is_refused_for(engine: Engine) -> None:
    with pytest.raises(InvalidAgent, match="E212"):
        engine.submit_normal("instructions: Help.")
    with pytest.raises(SubmissionRefused, match="normal agent, which has no initial state"):
        engine.submit_normal(CONFIG, state={"a": 1})
    with pytest.raises(SubmissionRefused, match="declares no variable 'b'"):
        engine.submit_normal(CONFIG, variables={"b": "1"})


def test_a_turn_that_broke_off_goes_on_where_it_was(
    engine: Engine, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script.add(calls(("note", {"text": "a"}), ("note", {"text": "b"})), says("Noted."))
    tools = '''
def note(text: str) -> str:
    """Notes."""
    with open("notes.txt", "a") as file:
        file.write(text)
    return text
'''
    advance = engine.store.visits.advance
    monkeypatch.setattr(engine.store.visits, "advance", refuse)

    run_id = engine.submit_normal(CONFIG, {"tools.py": tools}, workdir=str(tmp_path))
    with pytest.raises(RedisError):
        engine.drive()
    monkeypatch.setattr(engine.store.visits, "advance", advance)
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Noted."
    assert len(server.requests) == 2
    assert (tmp_path / "notes.txt").read_text() == "ab"


def refuse(*_: object, **__: object) -> str:
    """Redis is away."""
    raise RedisError


PARENT = """
start: a
model: openai:parent
nodes:
  a: {type: agent, agent: talker, prompt: "do {{what}}", next: z, state_updates: {r: "{{output}}"}}
  z: {type: end, output: "{{r}}"}
"""


def submit_parent(engine: Engine, config: str, parent: str = PARENT, **request: Any) -> str:
    engine.write_normal("talker", config, {"tools.py": TOOLS})
    return engine.submit(parent, state={"what": "it"}, **request)


def child_of(engine: Engine, run_id: str) -> str:
    (child,) = engine.queries.children(run_id)
    return child.run_id


def test_a_node_runs_a_normal_agent_and_takes_its_result(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1}), text="Well."), says("It is 2."))
    config = "instructions: Help {{name}}.\nvariables: [{name: name, description: d, default: x}]"

    run_id = submit_parent(engine, config)
    engine.drive()

    run = engine.run(run_id)
    assert run.output == "It is 2."
    assert run.usage.prompt_tokens == 20
    assert server.requests[0].body["model"] == "parent"
    assert system(server).startswith("Help x.\n\n## Teammates\n")
    assert messages(server)[1]["content"] == "do it"
    assert set(engine.state(run_id)) == {"initial_prompt", "what", "r"}
    assert_consistent(engine.redis, runs=2)


def test_a_child_bears_more_repetition_than_a_root(engine: Engine, server: ModelServer) -> None:
    server.script.add(*[calls(("add", {"a": 1, "b": 1}))] * 5, says("I give up."))

    submit_parent(engine, CONFIG)
    engine.drive()

    *carried_out, refused = results(server)
    assert carried_out == ["2"] * 4
    assert "tool_call_loop_alert" in refused


def test_cancelling_the_root_ends_the_conversation(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("wipe", {"what": "it"})))

    run_id = submit_parent(engine, CONFIG, guarded=True)
    engine.drive()
    child = child_of(engine, run_id)
    assert [engine.run(each).status for each in (run_id, child)] == ["waiting", "waiting"]
    assert [question.run_id for question in engine.inbox()] == [child]
    engine.client.cancel(run_id)

    assert [engine.run(each).status for each in (run_id, child)] == ["cancelled", "cancelled"]
    assert engine.inbox() == []
    assert_consistent(engine.redis, runs=2)


def test_what_failed_below_is_retried_from_the_top(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1})), fails(400, "bad request"), says("2."))

    run_id = submit_parent(engine, CONFIG)
    engine.drive()
    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R015", "a")
    assert "R601" in failure.message
    engine.client.retry(run_id)
    engine.drive()

    run = engine.run(run_id)
    assert run.output == "2."
    assert len(server.requests) == 3
    assert run.usage.prompt_tokens == 20


def test_workers_that_take_turns_know_the_whole_conversation(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    """Both know some of it; one of them from before the run went back."""
    other = Engine(engine.redis, engine.clock, tmp_path / "other")

    def adds(request: Request) -> Reply:
        asked = len(server.requests)
        return calls(("add", {"a": asked, "b": 0})) if len(request.messages) < 13 else says("Done.")

    server.when(lambda _: True, adds)

    def drive(*workers: Engine) -> None:
        for worker in workers:
            assert worker.work_once()

    run_id = engine.submit_normal(CONFIG, {"tools.py": TOOLS})
    drive(engine, engine, other, engine, other, other, engine)
    first, asked = messages(server), [request.messages for request in server.requests]
    engine.client.retry(run_id, 3)
    drive(other, other, engine, other, engine)

    again, asked_again = messages(server), [request.messages for request in server.requests[7:]]
    assert engine.run(run_id).status == "succeeded"
    assert asked == [first[: 2 * turn] for turn in range(1, 8)]
    assert asked_again == [again[: 2 * turn] for turn in range(3, 8)]
    assert first[:6] == again[:6]
    assert first[7] != again[7]
