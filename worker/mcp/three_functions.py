"""What the three functions of a server do: find its tools, describe one, and call it.

They know only the tools that pass the filters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

from sleipnir.graphs.mcp.config import McpServer
from sleipnir.worker.mcp.failures import McpFailed
from sleipnir.worker.mcp.search import search
from sleipnir.worker.mcp.tool import McpTool

if TYPE_CHECKING:
    from sleipnir.worker.mcp.functions import McpServers

_DEFAULT_TOP_K = 8
_MOST_TOP_K = 20

_Arguments: TypeAlias = Mapping[str, Any]

_TOOL = {"type": "string", "description": "The name of the tool, as returned by the search."}
SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What you want to do, in a few words."},
        "top_k": {
            "type": "integer",
            "minimum": 1,
            "maximum": _MOST_TOP_K,
            "default": _DEFAULT_TOP_K,
            "description": "The maximum number of tools to return.",
        },
    },
    "required": ["query"],
}
DESCRIBE = {"type": "object", "properties": {"tool": _TOOL}, "required": ["tool"]}
INVOKE = {
    "type": "object",
    "properties": {
        "tool": _TOOL,
        "arguments": {
            "type": "object",
            "default": {},
            "description": "The arguments of the tool, by name.",
        },
    },
    "required": ["tool"],
}


def search_tools(
    servers: McpServers, server: McpServer, arguments: _Arguments, timeout_s: float
) -> list[dict[str, str]]:
    query = _given(arguments, "query", str, "a text")
    top_k = _given(arguments, "top_k", int, "an integer", _DEFAULT_TOP_K)
    tools = servers.tools(server, timeout_s)
    found = search(tools, server.name, query, min(max(top_k, 1), _MOST_TOP_K))
    return [
        {"name": tool.name, "server": server.name, "description": tool.description}
        for tool in found
    ]


def describe_tool(
    servers: McpServers, server: McpServer, arguments: _Arguments, timeout_s: float
) -> dict[str, Any]:
    tool = _named(servers.tools(server, timeout_s), arguments)
    return {
        "type": "object",
        "properties": {"tool": {"type": "string"}, "arguments": tool.parameters},
    }


def invoke_tool(
    servers: McpServers, server: McpServer, arguments: _Arguments, timeout_s: float
) -> dict[str, Any]:
    servers.require_passing(server, _name_in(arguments))
    tool = _named(servers.tools(server, timeout_s), arguments)
    passed_on = _given(arguments, "arguments", dict, "an object", {})
    return servers.invoke(server, tool, passed_on, timeout_s)


def _named(tools: Sequence[McpTool], arguments: _Arguments) -> McpTool:
    name = _name_in(arguments)
    found = {tool.name: tool for tool in tools}
    if name in found:
        return found[name]
    near = get_close_matches(name, found, n=3)
    hint = f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    raise McpFailed(f"there is no tool '{name}'{hint}")


def _name_in(arguments: _Arguments) -> str:
    name: str = _given(arguments, "tool", str, "the name of a tool")
    return name


_NOT_GIVEN = object()


def _given(
    arguments: _Arguments, name: str, kind: type, expected: str, default: Any = _NOT_GIVEN
) -> Any:
    value = arguments.get(name)
    if value is None and default is not _NOT_GIVEN:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise McpFailed(f"{name}: expected {expected}")
    return value
