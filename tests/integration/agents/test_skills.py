"""Skills: what a model loads while it works, in normal agents and in `llm` nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sleipnir.graphs.tools.reader import RESERVED_PREFIXES
from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.runs.events import Event, ModelCalled, ToolCalled
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.llm.models import Models
from tests.support.engine import Engine
from tests.support.mcp import PROGRAM
from tests.support.model_server import ModelServer, Request, calls, says
from tests.support.pages import TEXTS

CONFIG = """
model: openai:m
instructions: You help.
global_tools: [shout]
mcp_servers: [other]
skills_enabled: true
enabled_skills: [poetry, sums, broken, thief, homeless]
"""
GRAPH = """
model: openai:m
skills_enabled: true
enabled_skills: [poetry, sums]
start: ask
nodes:
  ask:
    type: llm
    prompt: Do it.
    enabled_skills: [poetry]
    skill_instructions: "Skills help: {{them}}."
    next: plain
    state_updates: {said: "{{output}}"}
  plain: {type: llm, prompt: And now?, skills_enabled: false, next: done}
  done: {type: end, output: "{{said}}"}
"""
SKILLS = {
    "poetry": "description: Writes verse.\nenabled_tools: rhyme, shout\n",
    "sums": "description: Adds.\nenabled_mcp_servers: [tested]\nauto_unload: true\n",
    "broken": "description: Breaks.\nenabled_tools: [nowhere]\n",
    "thief": "description: Takes a name.\nenabled_tools: [thief]\n",
    "unlisted": "description: Not for this agent.\n",
    "careful": "description: Adds.\nenabled_mcp_servers: tested\nmcp_tools: {tested: 'add, w*'}\n",
    "shut": "description: Ends.\nenabled_mcp_servers: [tested]\nmcp_tools: {tested: null}\n",
    "bystander": "description: Sees.\nmcp_tools: {tested: []}\nfuture_field: [1]\n",
}
ABSENT = "there is no such skill here; skill__list shows those there are"
TOOL = 'def run(text: str) -> str:\n    "Says it again."\n    return text + text\n'


def is_of_model(event: Event) -> bool:
    return isinstance(event, ModelCalled | ToolCalled)


@pytest.fixture
def skilled(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine whose user has skills, and tools and servers that they bring."""
    config, here = tmp_path / "config", tmp_path / "here"
    here.mkdir()
    for name, front in SKILLS.items():
        _write(config / "skills" / name / "SKILL.md", f"---\n{front}---\nBody of {name}.\n")
    better = "description: Writes better verse.\nenabled_tools: [rhyme, shout]\n"
    own = f"---\n{better}---\nFour {{{{lines}}}}."
    _write(here / ".sleipnir" / "skills" / "poetry" / "SKILL.md", own)
    for name in ("rhyme", "shout", "thief"):
        _write(config / "functions" / "tools" / f"{name}.py", TOOL)
    servers = {"mcpServers": {"tested": PROGRAM, "other": {**PROGRAM, "disabled": True}}}
    _write(config / "functions" / "mcp.json", json.dumps(servers))
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(config))
    monkeypatch.chdir(here)
    yield engine
    engine.services.tools.mcp.close()


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def names(request: Request) -> list[str]:
    found = [tool["function"]["name"] for tool in request.body.get("tools", ())]
    return [name for name in found if not name.startswith(("user__", "agent__"))]


def system(request: Request) -> str:
    found = [str(each["content"]) for each in request.messages if each["role"] == "system"]
    return found[0] if found else ""


def results(server: ModelServer) -> list[Any]:
    sent = server.requests[-1].messages
    return [json.loads(each["content"]) for each in sent if each["role"] == "tool"]


def _once(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Answers the first call; the worker is lost at the next one."""
    replies: list[Any] = []

    def answered(*arguments: Any) -> Any:
        if replies:
            raise RedisError
        replies.append(ask(*arguments))
        return replies[0]

    return answered


def load(name: str) -> tuple[str, dict[str, Any]]:
    return "skill__load", {"name": name}


def test_a_loaded_skill_is_there_from_the_next_turn_until_it_is_unloaded(
    skilled: Engine, server: ModelServer
) -> None:
    server.script.add(
        calls(("skill__list", {}), load("poetry"), load("poetry")),
        calls(("rhyme", {"text": "ha"}), load("sums")),
        calls(("mcp_invoke_tested", {"tool": "add", "arguments": {"a": 2, "b": 3}})),
        calls(("skill__unload", {"name": "poetry"})),
        says("Done."),
    )

    run_id = skilled.submit_normal(CONFIG)
    skilled.drive()

    assert skilled.run(run_id).output == "Done."
    first, second, third, fourth, last = server.requests
    own = ["shout", "skill__list", "skill__load", "skill__unload"]
    of_server = [f"mcp_{verb}_tested" for verb in ("search", "describe", "invoke")]
    assert names(first) == own
    assert names(second) == [*own, "rhyme"]
    assert names(third) == names(fourth) == [*own, "rhyme", *of_server]
    assert names(last) == [*own, *of_server]
    prompt = system(first)
    assert "## Skills" in prompt
    assert system(second) == f"{prompt}\n\nFour {{{{lines}}}}."
    assert system(third) == f"{prompt}\n\nFour {{{{lines}}}}.\n\nBody of sums."
    assert system(last) == f"{prompt}\n\nBody of sums."
    listed, loaded, again, rhyme, _, added, unloaded = results(server)
    assert [each["name"] for each in listed["skills"]] == ["poetry", "sums", "thief"]
    assert listed["skills"][0] == {
        "name": "poetry",
        "description": "Writes better verse.",
        "tools": ["rhyme", "shout"],
        "mcp_servers": [],
        "loaded": False,
    }
    assert loaded == again == {"status": "ok", "name": "poetry", "tools": ["rhyme", "shout"]}
    assert rhyme == {"output": "haha"}
    assert added["content"][0]["text"] == "5"
    assert unloaded == {"status": "ok", "name": "poetry"}
    # The end of the answer unloads what is for one answer only.
    kept = [each.writes.get("skills") for each in skilled.queries.checkpoints(run_id)]
    assert kept == [None, ["poetry"], ["poetry", "sums"], None, ["sums"], []]


def test_a_loaded_skill_narrows_the_servers_that_it_brings(
    skilled: Engine, server: ModelServer
) -> None:
    config = CONFIG.replace("[other]", "[tested]").replace("poetry", "careful, shut, bystander")
    where, process = (
        ("mcp_invoke_tested", {"tool": tool, "arguments": {}}) for tool in ("where", "process")
    )
    server.script.add(
        calls(load("bystander"), load("careful")),
        calls(where, process),
        calls(load("shut")),
        calls(where),
        says("Done."),
    )

    skilled.submit_normal(config)
    skilled.drive()

    of_server = [f"mcp_{verb}_tested" for verb in ("search", "describe", "invoke")]
    offered = [set(of_server) <= set(names(request)) for request in server.requests]
    assert offered == [True, True, True, False, False]
    _, _, allowed, refused, _, gone = results(server)
    assert allowed["isError"] is False
    assert refused == {
        "tool_call_error": (
            "invocation failed: 'mcp_tools' of skill 'careful' does not let tool 'process' pass"
        )
    }
    assert "tool_call_error" in gone


def test_a_node_narrows_the_servers_of_skills(skilled: Engine, server: ModelServer) -> None:
    graph = GRAPH.replace("start: ask", "mcp_servers: [tested]\nstart: ask").replace(
        "enabled_skills: [poetry]", "enabled_skills: [careful]\n    mcp_tools: {tested: [add]}"
    )
    where = ("mcp_invoke_tested", {"tool": "where", "arguments": {}})
    server.script.add(calls(load("careful")), calls(where), says("Done."), says("Plain."))

    skilled.finish(graph.replace("[poetry, sums]", "[careful]"))

    (told,) = (
        json.loads(each["content"])["tool_call_error"]
        for each in server.requests[2].messages
        if each["role"] == "tool" and "tool_call_error" in str(each["content"])
    )
    stopped = "'mcp_tools' of node 'ask' does not let tool 'where' pass"
    assert told == f"invocation failed: {stopped}"


def test_a_skill_says_what_machine_it_is_and_nothing_else(
    skilled: Engine, server: ModelServer, tmp_path: Path
) -> None:
    body = "{{__os__}} {{__cwd__}} {{__shell__}} {{user-name}} {{__tools__}} {{__agents__}} {{ }}"
    _write(
        tmp_path / "config" / "skills" / "sums" / "SKILL.md", f"---\ndescription: d\n---\n{body}"
    )
    graph = GRAPH.replace("skills_enabled: true\n", "").replace("[poetry]", "[sums]")
    server.script.add(calls(load("sums")), says("Done."), says("Plain."))

    skilled.finish(graph, workdir=str(tmp_path))

    *_, said = system(server.requests[1]).split("\n\n")
    assert said.startswith(f"linux {tmp_path} ")
    assert "{{__shell__}}" not in said
    assert said.endswith(" {{user-name}} {{__tools__}} {{__agents__}} {{ }}")


def test_the_setting_enables_skills_for_agents_that_say_nothing_and_stays_with_the_run(
    skilled: Engine, server: ModelServer
) -> None:
    quiet = CONFIG.replace("skills_enabled: true\nenabled_skills: ", "x-unused: ")
    skilled.configure(skills_enabled=True)
    server.script.add(calls(load("unlisted")), says("Done."), says("Done."))

    skilled.submit_normal(quiet)
    skilled.configure()
    skilled.drive()
    skilled.submit_normal(quiet)
    skilled.drive()

    enabled = [
        ("skill__load" in names(request), "Body of unlisted." in system(request))
        for request in server.requests
    ]
    assert enabled == [(True, False), (True, True), (False, False)]


def test_functions_and_sections_of_a_prompt_have_an_order(
    skilled: Engine, server: ModelServer
) -> None:
    config = CONFIG.replace("mcp_servers: [other]", "mcp_servers: [tested]")
    server.script.add(calls(load("poetry")), says("Done."))

    skilled.submit_normal(
        f"{config}auto_continue: true\ncan_spawn_agents: true\nmax_auto_continues: 0\n",
        {"tools.py": 'def own() -> str:\n    "Is its own."\n    return ""\n'},
    )
    skilled.drive()

    before, after = (
        [tool["function"]["name"] for tool in request.body["tools"]] for request in server.requests
    )
    supervising = (
        "spawn",
        "check",
        "collect",
        "list",
        "list_available",
        "cancel",
        "task_create",
        "task_list",
        "task_complete",
        "task_fail",
        "reply_escalation",
    )
    assert before == [
        *("shout", "own", "mcp_search_tested", "mcp_describe_tested", "mcp_invoke_tested"),
        *("skill__list", "skill__load", "skill__unload"),
        *(f"todo__{name}" for name in ("init", "add", "done", "list", "clear", "pause")),
        *(f"agent__{name}" for name in supervising),
        *("agent__send_message", "agent__check_inbox"),
        *(f"user__{name}" for name in ("ask", "confirm", "input", "checkbox")),
    ]
    assert after == [*before, "rhyme"]
    own = [f"`{name}`" for name in before if name.startswith(RESERVED_PREFIXES[:7])]
    assert [name for name in own if name not in TEXTS["agents.md"]] == []
    assert [name for name in own if name not in system(server.requests[0])] == []
    titles = re.findall(r"^## (.*)$", system(server.requests[0]), re.MULTILINE)
    assert titles == [
        *("Todo list", "Other agents", "Skills", "Teammates", "Asking the user"),
    ]


def test_loaded_skills_stay_with_a_session_but_for_those_of_one_answer(
    skilled: Engine, server: ModelServer
) -> None:
    server.script.add(calls(load("poetry"), load("sums")), says("Done."), says("Again."))
    quiet = CONFIG + "inject_skill_instructions: false\nskill_instructions: Not this.\n"

    skilled.submit_normal(quiet, session="ada")
    skilled.drive()
    skilled.submit_normal(quiet, session="ada")
    skilled.drive()

    assert "## Skills" not in server.requests[0].text
    assert "Not this." not in server.requests[0].text
    assert "Body of sums." in system(server.requests[1])
    assert "Four {{lines}}." in system(server.requests[2])
    assert "Body of sums." not in system(server.requests[2])
    assert "rhyme" in names(server.requests[2])


def test_what_cannot_be_loaded_is_refused_by_name(skilled: Engine, server: ModelServer) -> None:
    own = {"tools.py": 'def thief() -> str:\n    "Is here first."\n    return ""\n'}
    asked = ["broken", "thief", "homeless", "unlisted", "../poetry"]
    server.script.add(calls(*map(load, asked)), says("I see."))

    skilled.submit_normal(CONFIG, own)
    skilled.drive()

    assert results(server) == [
        {"error": "skill 'broken': unknown tool 'nowhere'"},
        {"error": "skill 'thief': its function 'thief' is there already"},
        *({"error": f"skill '{name}': {ABSENT}"} for name in asked[2:]),
    ]
    assert names(server.requests[1]) == names(server.requests[0])


def test_an_llm_node_loads_skills_too(skilled: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(load("poetry"), load("sums")),
        calls(("rhyme", {"text": "ho"})),
        says("Verse."),
        says("Nothing."),
    )

    run = skilled.finish(GRAPH)

    assert run.output == "Verse."
    first, second, third, plain = server.requests
    own = ["skill__list", "skill__load", "skill__unload"]
    assert names(first) == own
    assert names(second) == names(third) == [*own, "rhyme", "shout"]
    assert names(plain) == []
    assert system(first) == "Skills help: {{them}}."
    assert system(second) == "Skills help: {{them}}.\n\nFour {{lines}}."
    assert system(plain) == ""
    contents = [each["content"] for each in third.messages if each["role"] == "tool"]
    assert "there is no such skill here" in json.loads(contents[1])["error"]
    told = [each.event for each in skilled.queries.follow(run.run_id, block=False)]
    assert [e.tool if isinstance(e, ToolCalled) else "?" for e in told if is_of_model(e)] == [
        *("?", "skill__load", "skill__load", "?", "rhyme", "?", "?")
    ]


@pytest.mark.parametrize("normal", [True, False])
def test_a_load_is_known_to_who_takes_the_visit_over(
    skilled: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch, normal: bool
) -> None:
    server.script.add(calls(load("poetry")), says("Done."), says("."))
    run_id = skilled.submit_normal(CONFIG) if normal else skilled.submit(GRAPH)

    ask = Models.ask
    monkeypatch.setattr(Models, "ask", _once(ask))
    with pytest.raises(RedisError):
        skilled.drive()
    monkeypatch.setattr(Models, "ask", ask)
    skilled.clock.move(60)
    skilled.tick()
    skilled.drive()

    assert skilled.run(run_id).output == "Done."
    assert "Four {{lines}}." in system(server.requests[1])
    assert "rhyme" in names(server.requests[1])


def test_an_agents_skills_are_shown(skilled: Engine) -> None:
    directory = skilled.write_normal("talker", CONFIG)

    shown = CliRunner().invoke(cli, ["agents", str(directory)])

    assert "skills:" in shown.output
    assert "  poetry: Writes better verse." in shown.output
    assert "homeless" not in shown.output
