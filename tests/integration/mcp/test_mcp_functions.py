"""What a model is offered of MCP servers, and what its calls give, with real servers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.mcp.config import McpConfig, McpServer
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.worker.mcp.functions import McpServers, ResolvedTools
from sleipnir.worker.mcp.pool import McpPool
from tests.support.mcp import odd_mcp_server, plain_server, stdio_server

THREE = ["mcp_search_tested", "mcp_describe_tested", "mcp_invoke_tested"]


@pytest.fixture(scope="module")
def pool() -> Iterator[McpPool]:
    """One pool for all of these tests: its servers are started once."""
    pool = McpPool()
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


class Agent:
    """An agent with these servers, in this order."""

    def __init__(self, pool: McpPool, workdir: Path) -> None:
        self._pool = pool
        self._workdir = workdir

    def servers(self, *servers: McpServer, entries: Sequence[str] = ("all",), **env: str) -> Any:
        config = McpConfig({server.name: server for server in servers})
        secrets = Secrets(self._workdir / "no-such-file", env)
        return McpServers(config, entries, self._pool, secrets, self._workdir, 30.0)


@pytest.fixture
def agent(pool: McpPool, workdir: Path) -> Agent:
    return Agent(pool, workdir)


def names(resolved: ResolvedTools) -> list[str]:
    return [function.name for function in resolved.functions]


def call(resolved: ResolvedTools, name: str, /, **arguments: Any) -> Any:
    (function,) = (function for function in resolved.functions if function.name == name)
    return function.call(arguments)


def test_a_server_is_offered_as_three_functions(agent: Agent) -> None:
    resolved = agent.servers(stdio_server()).resolve()

    assert names(resolved) == THREE
    assert resolved.warnings == ()
    invoke = resolved.functions[2].declaration()["function"]
    assert invoke["name"] == "mcp_invoke_tested"
    assert "mcp_describe_tested" in invoke["description"]
    assert invoke["parameters"]["required"] == ["tool"]


def test_a_tool_is_searched_described_and_invoked(agent: Agent) -> None:
    resolved = agent.servers(stdio_server()).resolve()

    (found,) = call(resolved, "mcp_search_tested", query="add up numbers", top_k=1)
    described = call(resolved, "mcp_describe_tested", tool="add")
    result = call(resolved, "mcp_invoke_tested", tool="add", arguments={"a": 1, "b": 2})

    assert found == {"name": "add", "server": "tested", "description": "Add two numbers."}
    assert described["properties"]["tool"] == {"type": "string"}
    assert set(described["properties"]["arguments"]["properties"]) == {"a", "b"}
    assert result["structuredContent"] == {"result": 3}


@pytest.mark.parametrize(
    ("function", "arguments", "failure"),
    [
        ("mcp_search_tested", {}, "search failed: query: expected a text"),
        (
            "mcp_search_tested",
            {"query": "x", "top_k": "many"},
            "search failed: top_k: expected an integer",
        ),
        (
            "mcp_describe_tested",
            {"tool": "ad"},
            "describe failed: there is no tool 'ad'; did you mean 'add'?",
        ),
        ("mcp_invoke_tested", {"tool": "zzz"}, "invocation failed: there is no tool 'zzz'"),
        (
            "mcp_invoke_tested",
            {"tool": "add", "arguments": "a=1"},
            "invocation failed: arguments: expected an object",
        ),
    ],
)
def test_a_wrong_call_is_told_to_the_model(
    agent: Agent, function: str, arguments: Mapping[str, Any], failure: str
) -> None:
    resolved = agent.servers(stdio_server()).resolve()

    assert call(resolved, function, **arguments) == {"tool_call_error": failure}


def test_an_error_of_the_tool_is_passed_on(agent: Agent) -> None:
    resolved = agent.servers(stdio_server()).resolve()

    result = call(resolved, "mcp_invoke_tested", tool="refuse")

    assert result["isError"] is True


def test_a_crash_is_told_to_the_model(agent: Agent) -> None:
    resolved = agent.servers(stdio_server("fragile")).resolve()

    result = call(resolved, "mcp_invoke_fragile", tool="crash")

    assert "invocation failed: the server disconnected" in result["tool_call_error"]


def test_the_rest_of_the_time_bounds_a_call(agent: Agent, workdir: Path) -> None:
    resolved = agent.servers(stdio_server()).resolve(whole=[], names=["wait"])

    result = resolved.functions[0].call({"file": str(workdir / "never")}, timeout_s=0.2)

    assert result == {"tool_call_error": "invocation failed: no answer after 0.2 s"}


def test_a_node_gets_what_it_names(agent: Agent) -> None:
    servers = agent.servers(stdio_server(), plain_server())

    assert names(servers.resolve(whole=["plain"])) == [
        name.replace("tested", "plain") for name in THREE
    ]
    assert names(servers.resolve(whole=[], names=["mcp_invoke_tested"])) == ["mcp_invoke_tested"]
    assert names(servers.resolve(whole=[], names=["echo", "tested__add"])) == [
        "echo",
        "tested__add",
    ]
    assert names(servers.resolve(whole=["tested"], names=[THREE[0], "add"])) == [*THREE, "add"]


def test_a_named_tool_has_its_own_schema_and_is_called_directly(agent: Agent) -> None:
    resolved = agent.servers(stdio_server()).resolve(whole=[], names=["add"])

    assert resolved.functions[0].parameters["required"] == ["a", "b"]
    assert call(resolved, "add", a=20, b=22)["structuredContent"] == {"result": 42}


def test_the_first_server_that_has_the_name_wins(agent: Agent) -> None:
    one, two = stdio_server("one"), stdio_server("two")
    servers = agent.servers(one, two, entries=["two", "one"])

    resolved = servers.resolve(whole=[], names=["process", "one__process"])

    ids = [function.call({})["structuredContent"]["result"] for function in resolved.functions]
    first = agent.servers(two).resolve(whole=[], names=["process"])
    assert ids[0] == call(first, "process")["structuredContent"]["result"]
    assert ids[1] != ids[0]


def test_a_direct_server_offers_its_tools_with_its_name_where_they_clash(agent: Agent) -> None:
    direct = replace(plain_server(), name="pl.ain", expose="direct")

    resolved = agent.servers(direct, stdio_server()).resolve(whole=["pl.ain"], taken=["echo"])

    assert names(resolved) == ["more", "pl_ain__echo"]
    assert "content" in call(resolved, "pl_ain__echo", x=1)


def test_a_tool_without_a_name_is_not_offered(agent: Agent, tmp_path: Path) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("", "echo")]
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps({"tools": tools}))

    resolved = agent.servers(odd_mcp_server(listed, expose="direct")).resolve()

    assert names(resolved) == ["echo"]


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (McpServer("s", "stdio", command="no-such-program"), "there is no 'no-such-program'"),
        (stdio_server("s", disabled=True), "it is disabled in mcp.json"),
        (McpServer("s", "http", url="http://127.0.0.1:9", oauth=True), "it asks for OAuth"),
        (
            stdio_server("s", env={"A": "{{ONE_SECRET}}", "B": "{{TWO_SECRETS}}"}),
            "no value for {{ONE_SECRET}}, {{TWO_SECRETS}}: set it in",
        ),
    ],
)
def test_an_unavailable_server_is_a_warning(agent: Agent, server: McpServer, reason: str) -> None:
    resolved = agent.servers(server, stdio_server(), entries=["s", "tested", "absent"]).resolve()

    assert names(resolved) == THREE
    first, second = sorted(resolved.warnings, reverse=True)
    assert first.startswith(f"MCP server 's' is unavailable: {reason}")
    assert second == "MCP server 'absent' is unavailable: mcp.json does not have it"


def test_a_name_nobody_has_is_a_warning(agent: Agent) -> None:
    broken = McpServer("broken", "stdio", command="no-such-program")

    answered = agent.servers(stdio_server()).resolve(whole=[], names=["add", "nothing"])
    silent = agent.servers(stdio_server(), broken).resolve(whole=[], names=["nothing"])
    found = agent.servers(stdio_server(), broken).resolve(whole=[], names=["add"])

    assert answered.warnings == ("no MCP server has a function 'nothing'",)
    assert silent.warnings == ("MCP server 'broken' is unavailable: there is no 'no-such-program'",)
    assert found.warnings == ()


def test_secrets_reach_the_server_and_come_back_masked(agent: Agent) -> None:
    own = stdio_server("secretive")
    server = replace(own, env={**own.env, "KEY": "{{ SERVER_KEY }}"})

    resolved = agent.servers(server, SERVER_KEY="hush-hush").resolve(whole=[], names=["variable"])
    result = call(resolved, "variable", name="KEY")

    assert result["structuredContent"] == {"result": "***"}
    assert result["content"][0]["text"] == "***"
