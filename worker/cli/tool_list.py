"""Formats functions for `sleipnir tools`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sleipnir.graphs.tools.function import Function
from sleipnir.scheduler.views.text.formatting import first_line
from sleipnir.scheduler.views.text.terminal_output import printable, style
from sleipnir.worker.mcp.functions import McpFunction

AnyFunction: TypeAlias = Function | McpFunction


def lines_of(function: AnyFunction) -> Iterator[str]:
    """Yield the lines about a function: its parameters, what it does, and where it is from."""
    yield f"{style(function.name, bold=True)}({_parameters(function.parameters)})"
    yield f"  {first_line(function.description, 96)}"
    yield f"  {_origin(function)}"


def _parameters(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"{printable(name)}{'*' if name in required else ''}: {_type(part)}"
        for name, part in schema.get("properties", {}).items()
    )


def _type(schema: Mapping[str, Any]) -> str:
    """Return a schema's type in a word or two."""
    if "enum" in schema:
        texts = (v if isinstance(v, str) else json.dumps(v) for v in schema["enum"])
        return printable("|".join(texts))
    kinds = schema.get("type", "any")
    kind = kinds if isinstance(kinds, str) else "|".join(kinds)
    return f"{kind} of {_type(schema['items'])}" if "items" in schema else kind


def _origin(function: AnyFunction) -> str:
    if isinstance(function, McpFunction):
        return "MCP server"
    file, here = function.file, Path.cwd()
    shown = file.relative_to(here) if file.is_relative_to(here) else file
    return f"{shown}:{function.line}"
