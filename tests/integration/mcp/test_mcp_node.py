"""llm nodes whose tools are those of MCP servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.cli.recording_flags import given_recording
from sleipnir.scheduler.runs.events import StepCommitted
from sleipnir.scheduler.runs.recording import MadeWith, RecordedToolCall, written
from tests.support.engine import Engine
from tests.support.mcp import PROGRAM
from tests.support.model_server import ModelServer, calls, says
from tests.support.site import ServedSite

GRAPH = """
model: openai:m
mcp_servers: [tested, absent]
start: ask
nodes:
  ask: {type: llm, prompt: "Do it.", tools: %s, next: done, state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""


@pytest.fixture
def configured(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine whose user has one MCP server, and one that does not start."""
    config = tmp_path / "config"
    (config / "functions").mkdir(parents=True)
    absent = {"command": "no-such-program"}
    servers = {"mcpServers": {"tested": PROGRAM, "absent": absent, "unused": absent}}
    (config / "functions" / "mcp.json").write_text(json.dumps(servers))
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(config))
    yield engine
    engine.services.tools.mcp.close()


def names(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[0].body["tools"]]


def results(server: ModelServer) -> list[Any]:
    messages = server.requests[-1].messages
    return [json.loads(m["content"]) for m in messages if m["role"] == "tool"]


def test_a_tool_that_echoes_its_servers_token_shows_it_nowhere(
    configured: Engine, server: ModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "canary-3b90c4"
    env = {**PROGRAM["env"], "SERVICE_TOKEN": canary}
    servers = {"mcpServers": {"tested": {**PROGRAM, "env": env}}}
    (tmp_path / "config" / "functions" / "mcp.json").write_text(json.dumps(servers))
    told = {"tool": "variable", "arguments": {"name": "SERVICE_TOKEN"}}
    server.script.add(calls(("mcp_invoke_tested", told)), says(f"It is {canary}."))

    run = configured.finish(GRAPH % '["mcp:tested"]')

    assert "***" in str(results(server))
    assert canary not in str([request.body for request in server.requests])
    with ServedSite(configured.client) as site:
        tabs = ("", "/state", "/events", "/logs", "/model", "/graph", "/agent")
        paths = [f"{prefix}/runs/{run.run_id}{tab}" for tab in tabs for prefix in ("", "/api/v1")]
        answers = [site.ask(path) for path in [*paths, "/runs", "/now"]]
    assert {answer.status for answer in answers} == {200}
    assert [answer.text for answer in answers if canary in answer.text] == []
    assert canary not in caplog.text


def test_a_server_gives_three_functions_and_its_tools_are_invoked_through_them(
    configured: Engine, server: ModelServer
) -> None:
    add = {"tool": "add", "arguments": {"a": 2, "b": 3}}
    server.script.add(
        calls(("mcp_search_tested", {"query": "sum"}), ("mcp_describe_tested", {"tool": "add"})),
        calls(("mcp_invoke_tested", add)),
        says("done"),
    )

    run = configured.finish(GRAPH % '["mcp:tested"]')

    assert run.output == "done"
    assert names(server) == ["mcp_search_tested", "mcp_describe_tested", "mcp_invoke_tested"]
    found, described, invoked = results(server)
    assert "add" in [entry["name"] for entry in found]
    assert set(described["properties"]["arguments"]["properties"]) == {"a", "b"}
    assert (invoked["isError"], invoked["content"][0]["text"]) == (False, "5")


def test_a_tool_that_a_node_names_is_a_function_of_its_own(
    configured: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("add", {"a": 1, "b": 1})), says("done"))

    run = configured.finish(GRAPH % "[add]")

    assert run.output == "done"
    assert names(server) == ["add"]
    assert results(server)[0]["content"][0]["text"] == "2"


def test_a_server_that_does_not_start_is_a_warning_and_the_run_goes_on(
    configured: Engine, server: ModelServer
) -> None:
    server.script.add(says("without it, then"))

    run = configured.finish(GRAPH % '["mcp:absent"]')

    (step, *_) = configured.events(run.run_id, StepCommitted)
    assert run.output == "without it, then"
    assert "MCP server 'absent' is unavailable" in step.warnings[0]


def test_calls_to_servers_overlap(configured: Engine, server: ModelServer, tmp_path: Path) -> None:
    # The first call waits for what only the second one does.
    file = tmp_path / "there"
    touch = {"file": str(file)}
    server.script.add(calls(("wait", touch), ("touch", touch)), says("done"))

    run = configured.finish(GRAPH % "[wait, touch]")

    assert run.output == "done"
    assert results(server)[0]["content"][0]["text"] == "done"


def test_the_bundle_holds_only_the_agent_s_servers(configured: Engine) -> None:
    prepared = configured.client.prepare(str(configured.write("a", GRAPH % "[]")))

    root = configured.services.agents.get(prepared.digest).root

    bundled = json.loads((root / "functions" / "mcp.json").read_text())
    assert sorted(bundled["mcpServers"]) == ["absent", "tested"]


@pytest.mark.parametrize("tools", ["recorded", "live"])
def test_a_replay_without_tools_has_the_filter_of_the_recording(
    configured: Engine, tmp_path: Path, tools: str
) -> None:
    configured.configure(mcp_tools={"tested": ["where"]})
    agent, file = str(configured.write("a", GRAPH % "[]")), tmp_path / "calls.jsonl"
    made = MadeWith(mcp_tools={"tested": ["add", "*e*"]})
    file.write_text(written([made, RecordedToolCall("add", {}, 3)]))

    given = given_recording(configured.client, agent, file, tools)
    assert given is not None
    prepared = configured.client.prepare(agent, made_with=given.made_with)

    root = configured.services.agents.get(prepared.digest).root
    kept = json.loads((root / "functions" / "mcp.json").read_text())["mcp_tools"]
    assert kept == {"tested": ["add", "*e*"] if tools == "recorded" else ["where"]}


def test_filters_of_all_layers_narrow_what_a_node_may_call_and_stay_with_the_run(
    configured: Engine, server: ModelServer, tmp_path: Path
) -> None:
    file = tmp_path / "config" / "functions" / "mcp.json"
    entry = {**PROGRAM, "allowedTools": ["add", "process", "variable", "where"]}
    file.write_text(json.dumps({"mcpServers": {"tested": entry, "closed": PROGRAM}}))
    configured.configure(
        mapping_mcp_servers={"here": "tested", "both": ["tested", "closed"], "shut": ["closed"]},
        mcp_tools={"both": ["[a-z]*", "?dd", "*e*"], "elsewhere": ["x"]},
    )
    graph = """
model: openai:m
mcp_servers: [all]
mcp_tools: {here: ["*"], tested: [never], shut: []}
start: ask
nodes:
  ask:
    type: llm
    prompt: Do it.
    tools: ["mcp:all", where]
    mcp_tools: {here: [add, where]}
    next: done
    state_updates: {said: "{{output}}"}
  done: {type: end, output: "{{said}}"}
"""
    tools = ("add", "where", "process", "touch")
    server.script.add(
        calls(*[("mcp_describe_tested", {"tool": tool}) for tool in tools]),
        calls(*[("mcp_invoke_tested", {"tool": tool}) for tool in ("process", "touch")]),
        says("done"),
    )

    run_id = configured.submit(graph)
    file.write_text(json.dumps({"mcpServers": {"tested": PROGRAM}}))
    configured.configure()
    configured.drive()

    assert configured.run(run_id).output == "done"
    assert names(server) == [f"mcp_{verb}_tested" for verb in ("search", "describe", "invoke")] + [
        "where"
    ]
    described, told = results(server)[:4], results(server)[4:]
    assert ["properties" in each for each in described] == [True, True, False, False]
    assert [each["tool_call_error"] for each in told] == [
        "invocation failed: 'mcp_tools' of node 'ask' does not let tool 'process' pass",
        "invocation failed: 'allowedTools' of mcp.json does not let tool 'touch' pass",
    ]
    (step, *_) = configured.events(run_id, StepCommitted)
    assert step.warnings == ()
