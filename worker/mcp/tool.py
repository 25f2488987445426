"""A tool of an MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool as its server declares it."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # JSON Schema of its arguments


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools of a server, and what was left out of its list."""

    tools: tuple[McpTool, ...] = ()
    warnings: tuple[str, ...] = ()  # one line each, which does not name the server
