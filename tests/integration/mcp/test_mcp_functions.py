"""What a model is offered of MCP servers, and what its calls give, with real servers."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.mcp.config import McpConfig, McpServer
from sleipnir.graphs.mcp.filters import Layer
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

    def servers(
        self,
        *servers: McpServer,
        entries: Sequence[str] = ("all",),
        layers: Sequence[Layer] = (),
        **env: str,
    ) -> Any:
        config = McpConfig({server.name: server for server in servers})
        secrets = Secrets(self._workdir / "no-such-file", env)
        return McpServers(config, entries, self._pool, secrets, self._workdir, 30.0, layers=layers)


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


FILTER = Layer("'mcp_tools' of node 'n'", {"tested": ["a*", "process"]})
STOPPED = "'mcp_tools' of node 'n' does not let tool 'refuse' pass"


def test_the_three_functions_know_only_tools_that_pass(agent: Agent) -> None:
    resolved = agent.servers(stdio_server(), layers=[FILTER]).resolve()

    found = call(resolved, "mcp_search_tested", query="add process refuse touch", top_k=20)
    described = call(resolved, "mcp_describe_tested", tool="refuse")
    added = call(resolved, "mcp_invoke_tested", tool="add", arguments={"a": 1, "b": 2})

    assert {tool["name"] for tool in found} <= {"add", "process"}
    assert described == {"tool_call_error": "describe failed: there is no tool 'refuse'"}
    assert added["structuredContent"] == {"result": 3}


def test_a_server_is_not_asked_for_a_tool_that_does_not_pass(agent: Agent) -> None:
    gone = McpServer("tested", "stdio", command="no-such-program")
    servers = agent.servers(gone, layers=[FILTER])
    invoke = agent.servers(stdio_server()).resolve().functions[2]

    result = replace(invoke, servers=servers, server=gone).call({"tool": "refuse"})

    assert result == {"tool_call_error": f"invocation failed: {STOPPED}"}


def test_tools_are_functions_of_their_own_only_if_they_pass(agent: Agent) -> None:
    direct = replace(stdio_server(), expose="direct")
    servers = agent.servers(direct, layers=[FILTER, Layer("outer", {"tested": ["*d*", "p*"]})])
    named = agent.servers(stdio_server(), layers=[FILTER])

    assert names(servers.resolve()) == ["add", "process"]
    assert names(named.resolve(whole=[], names=["tested__add", "refuse"])) == ["tested__add"]
    assert named.resolve(whole=[], names=["refuse"]).warnings == (
        "no MCP server has a function 'refuse'",
    )


def test_the_first_server_that_lets_a_tool_pass_has_the_name(agent: Agent) -> None:
    one, two = stdio_server("one"), stdio_server("two")
    servers = agent.servers(one, two, layers=[Layer("filter", {"one": ["add"]})])

    result = call(servers.resolve(whole=[], names=["process"]), "process")

    second = call(agent.servers(two).resolve(whole=[], names=["process"]), "process")
    assert result == second


def test_a_server_of_which_nothing_passes_is_neither_offered_nor_started(agent: Agent) -> None:
    gone = McpServer("gone", "stdio", command="no-such-program")
    servers = agent.servers(stdio_server(), gone, layers=[Layer("filter", {"gone": []})])

    resolved = servers.resolve(names=["mcp_invoke_gone"])

    assert (names(resolved), resolved.warnings) == (THREE, ())


def test_functions_can_be_narrowed_later(agent: Agent) -> None:
    invoke, add, where = (
        agent.servers(stdio_server()).resolve(whole=[], names=[THREE[2], "add", "where"]).functions
    )

    narrowed = [function.narrowed([FILTER]) for function in (invoke, add, where)]

    assert narrowed[2] is None
    assert narrowed[0].call({"tool": "refuse"}) == {
        "tool_call_error": f"invocation failed: {STOPPED}"
    }
    assert narrowed[1].call({"a": 1, "b": 2})["structuredContent"] == {"result": 3}
    assert invoke.call({"tool": "refuse"})["isError"] is True
    assert invoke.narrowed([Layer("filter", {"tested": []})]) is None


ODD: Mapping[str, tuple[Any, str]] = {
    "object": (5, "is not an object"),
    "nameless": ({"inputSchema": {"type": "object"}}, "its name is not a text, or is empty"),
    "unnamed": ({"name": ""}, "its name is not a text, or is empty"),
    "numbered": ({"name": 5}, "its name is not a text, or is empty"),
    "a text as schema": ({"name": "odd", "inputSchema": "x"}, "tool 'odd' is left out: its inp"),
    "a list of texts": (
        {"name": "odd", "inputSchema": {"type": "array"}},
        "tool 'odd' is left out: its inputSchema is of type 'array', not 'object'",
    ),
}
USABLE: Mapping[str, tuple[dict[str, Any], str | None]] = {
    "schema": ({}, None),
    "null": ({"inputSchema": None}, None),
    "empty": ({"inputSchema": {}}, None),
    "nullable": ({"inputSchema": {"type": ["object", "null"]}}, None),
    "icons": ({"icons": "x"}, None),
    "meta": ({"_meta": 5}, None),
    "annotations": ({"annotations": [5], "title": 5, "execution": "x"}, None),
    "null description": ({"description": None}, None),
    "description": ({"description": 5}, "without its odd description"),
    "output": ({"outputSchema": {"type": "array"}}, "without its odd outputSchema"),
    "text as output": ({"outputSchema": "x"}, "without its odd outputSchema"),
    "properties": (
        {"inputSchema": {"type": "object", "properties": [5]}},
        "without its odd inputSchema.properties",
    ),
}


def listing(agent: Agent, tmp_path: Path, listed: Any) -> ResolvedTools:
    """Return the functions of a server that offers each tool of this list by itself."""
    file = tmp_path / "listed.json"
    file.write_text(json.dumps(listed))
    resolved: ResolvedTools = agent.servers(odd_mcp_server(file, expose="direct")).resolve()
    return resolved


def test_an_odd_tool_leaves_its_server_the_others(agent: Agent, tmp_path: Path) -> None:
    odd = [tool for tool, _ in ODD.values()]

    resolved = listing(agent, tmp_path, {"tools": [*odd, {"name": "echo"}], "_meta": "odd too"})

    assert names(resolved) == ["echo"]
    assert len(resolved.warnings) == len(ODD)
    for warning, (_, reason) in zip(resolved.warnings, ODD.values(), strict=True):
        assert reason in warning
    assert all(warning.startswith("MCP server 'odd': t") for warning in resolved.warnings)


def test_a_tool_with_an_odd_part_is_used_without_it(agent: Agent, tmp_path: Path) -> None:
    tools = [{**tool, "name": name} for name, (tool, _) in USABLE.items()]

    resolved = listing(agent, tmp_path, {"tools": tools})

    assert [f.parameters for f in resolved.functions] == [
        {"type": "object", "properties": {}} for _ in USABLE
    ]
    assert resolved.warnings == tuple(
        f"MCP server 'odd': tool '{name}' is used {reason}"
        for name, (_, reason) in USABLE.items()
        if reason
    )
    assert all("content" in function.call({}) for function in resolved.functions)


@pytest.mark.parametrize("cursors", [["same"] * 3, ["", "", ""], ["a", "b", "a"], ["1", "2", "3"]])
def test_a_list_ends_with_a_page_that_brings_nothing_new(
    agent: Agent, tmp_path: Path, cursors: list[str]
) -> None:
    first = [{"name": f"t{n}"} for n in range(60)]
    pages = [
        {"tools": tools, "nextCursor": cursor}
        for tools, cursor in zip([first, [*first, {"name": "last"}], first], cursors, strict=True)
    ]

    resolved = listing(agent, tmp_path, pages)

    assert names(resolved) == [*(f"t{n}" for n in range(60)), "last"]
    assert resolved.warnings == ()
    assert (tmp_path / "listed.json.asked").read_text().count("once") == 3


def test_tools_whose_names_become_equal_are_all_offered(agent: Agent, tmp_path: Path) -> None:
    long = "x" * 70
    tools = ["東京", "大阪", "京都", "奈良", f"{long}1", f"{long}2", f"{long}3"]

    resolved = listing(agent, tmp_path, {"tools": [{"name": name} for name in tools]})

    assert len(set(names(resolved))) == len(tools)
    assert all(re.fullmatch(r"[\w-]{1,64}", name) for name in names(resolved))


def test_pictures_reach_models_as_their_size(agent: Agent, tmp_path: Path) -> None:
    picture = {"type": "image", "data": b64encode(bytes(30_000)).decode(), "mimeType": "image/png"}
    said = json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"content": [picture]}})
    answer = said.replace('"id": 0', '"id": @ID@').encode().hex()

    resolved = listing(agent, tmp_path, {"tools": [{"name": "shoot"}]})

    assert call(resolved, "shoot", hex=answer) == {
        "content": [{"type": "text", "text": "[image/png, 30,000 bytes]"}],
        "isError": False,
    }


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
