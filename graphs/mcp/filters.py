"""Filters of MCP tools: layers of patterns, each of which can only narrow what models may call.

Layers are, from the outside: `allowedTools` of a server, the setting `mcp_tools`, and the fields of
this name of the agent, of skills and of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from sleipnir.records import dataclass

# Protocols name tools in up to 128 characters; nobody writes as many patterns.
MAX_PATTERN_CHARS = 128
MAX_PATTERNS = 100

# The field `mcp_tools`: patterns by server or alias.
ToolFilter: TypeAlias = Mapping[str, Sequence[str]]

_NOT_IN_FUNCTIONS = re.compile(r"[^A-Za-z0-9_*?-]")


@dataclass(frozen=True, slots=True)
class Layer:
    """One filter; servers that it does not name are not narrowed by it."""

    name: str  # as messages name it, such as `'mcp_tools' of node 'a'`
    patterns: Mapping[str, Sequence[str]]  # by server; a tool must fit one of them

    def admits(self, server: str, tool: str) -> bool:
        """Return whether a tool passes, by the name that its server gives it."""
        patterns = self.patterns.get(server)
        return patterns is None or any(_fits(tool, pattern) for pattern in patterns)

    def may_admit(self, server: str, function: str) -> bool:
        """Return whether a tool passes that models may know by this name.

        Functions have `_` where a tool's name has a character that they cannot contain.
        """
        patterns = self.patterns.get(server)
        return patterns is None or any(
            _fits(function, pattern) or _fits(function, _NOT_IN_FUNCTIONS.sub("_", pattern))
            for pattern in patterns
        )

    def closes(self, server: str) -> bool:
        """Return whether no tool of a server can pass."""
        return server in self.patterns and not self.patterns[server]


def layer_of(
    name: str, written: ToolFilter | None, resolve: Callable[[Iterable[str]], Iterable[str]]
) -> Layer:
    """Return the layer that a field `mcp_tools` describes.

    Args:
        written: several keys may mean one server, which then has all their patterns.
        resolve: returns the servers that names, aliases and `all` stand for.
    """
    patterns: dict[str, tuple[str, ...]] = {}
    for key, some in (written or {}).items():
        for server in resolve([key]):
            patterns[server] = (*patterns.get(server, ()), *some)
    return Layer(name, patterns)


def stopping(layers: Iterable[Layer], server: str, tool: str) -> Layer | None:
    """Return the first layer that a server's tool does not pass; None: it passes."""
    return next((layer for layer in layers if not layer.admits(server, tool)), None)


def is_closed(layers: Iterable[Layer], server: str) -> bool:
    """Return whether a layer lets nothing of a server pass."""
    return any(layer.closes(server) for layer in layers)


def _fits(name: str, pattern: str) -> bool:
    # Brackets are no part of the patterns' language.
    return fnmatchcase(name, pattern.replace("[", "[[]"))
