"""MCP servers that agents may use, and the names that stand for them.

`{{NAME}}`s of secrets are kept as written, and resolved when a server is started.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.mcp.filters import Layer, ToolFilter, layer_of
from sleipnir.records import dataclass

# In `mcp_servers`: all configured servers.
ALL_SERVERS = "all"

# A list of names, or one comma-separated string.
Members: TypeAlias = str | list[str]

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_WITH_SECRETS = ("command", "args", "env", "cwd", "url", "headers")


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server of `mcp.json`."""

    name: str
    type: Literal["stdio", "http", "sse"]
    command: str = ""  # stdio: a program that the worker starts
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None  # None: the working directory of the run
    url: str = ""  # http, sse
    headers: Mapping[str, str] = field(default_factory=dict)
    oauth: bool = False  # it requires OAuth, which only `headers` can replace
    expose: Literal["meta", "direct"] = "meta"
    disabled: bool = False

    def with_secrets(self, resolve: Callable[[dict[str, Any]], dict[str, Any]]) -> McpServer:
        """Return the server with the `{{NAME}}`s in its texts resolved, all at once."""
        texts = {name: getattr(self, name) for name in _WITH_SECRETS}
        return replace(self, **resolve(texts))


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The servers of `mcp.json`, names that stand for several of them, and filters of all agents.

    Servers that are described wrongly are in `entries` and `wrong` only.
    """

    servers: Mapping[str, McpServer] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entries: Mapping[str, Any] = field(default_factory=dict)  # as written, by name
    wrong: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)  # by name
    allowed: Mapping[str, Sequence[str]] = field(default_factory=dict)  # `allowedTools`, by name
    filter: ToolFilter = field(default_factory=dict)  # the setting `mcp_tools`

    def with_aliases(self, aliases: Mapping[str, Members]) -> McpConfig:
        """Add aliases; one with the name of a server is ignored."""
        read = {
            alias: tuple(_members(members))
            for alias, members in aliases.items()
            if not self._has(alias)
        }
        return replace(self, aliases={**self.aliases, **read})

    def before(self, others: McpConfig) -> McpConfig:
        """Add the servers of another configuration that have other names."""

        def joined(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
            more = {name: each for name, each in theirs.items() if not self._has(name)}
            return {**more, **mine}

        return replace(
            self,
            servers=joined(self.servers, others.servers),
            entries=joined(self.entries, others.entries),
            wrong=joined(self.wrong, others.wrong),
            allowed=joined(self.allowed, others.allowed),
        )

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The filters that hold for all agents."""
        return (
            Layer("'allowedTools' of mcp.json", self.allowed),
            layer_of("the setting 'mcp_tools'", self.filter, self.resolve),
        )

    def layer(self, owner: str, written: ToolFilter | None) -> Layer:
        """Return the filter that the field `mcp_tools` of an agent, a skill or a node describes."""
        return layer_of(f"'mcp_tools' of {owner}", written, self.resolve)

    @property
    def programs(self) -> dict[str, str]:
        """Return the program needed to start each server, on the PATH or at a fixed place.

        Servers for which this is unknown are left out: those with secrets, a relative path or a
        PATH of their own are up to the worker.
        """
        return {
            server.name: server.command
            for server in self.servers.values()
            if server.type == "stdio"
            and not server.disabled
            and "PATH" not in server.env
            and "{{" not in server.command
            and ("/" not in server.command or server.command.startswith("/"))
        }

    def resolve(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the servers that entries of `mcp_servers` stand for, in order, each once.

        A name that is neither a server, an alias nor `all` stands for itself; how to report it is
        up to the caller.
        """
        return tuple(dict.fromkeys(server for name in names for server in self._meant_by(name)))

    def bundled(self, names: Iterable[str], filtered: Iterable[str] = ()) -> dict[str, Any]:
        """Return the `mcp.json` for a bundle, with only what these entries of `mcp_servers` need.

        When it is read back, the same entries stand for the same servers in the same order, and
        the same filters hold.

        Args:
            filtered: servers and aliases that filters of the agent name.
        """
        names = tuple(names)
        wanted = [server for server in self.resolve(names) if server in self.entries]
        document: dict[str, Any] = {"mcpServers": {name: self.entries[name] for name in wanted}}
        narrowed = {
            name: list(patterns)
            for name, patterns in self.filter.items()
            if not set(self.resolve([name])).isdisjoint(wanted)
        }
        named = dict.fromkeys([*names, *filtered, *narrowed])
        if aliases := {name: list(self.aliases[name]) for name in named if name in self.aliases}:
            document["aliases"] = aliases
        if narrowed:
            document["mcp_tools"] = narrowed
        return document

    def _meant_by(self, name: str) -> tuple[str, ...]:
        if name == ALL_SERVERS and not self._has(name):
            usable = (server.name for server in self.servers.values() if not server.disabled)
            return (*usable, *(name for name in self.wrong if not self._is_disabled(name)))
        return self.aliases.get(name, (name,))

    def _has(self, name: str) -> bool:
        return name in self.servers or name in self.wrong

    def _is_disabled(self, wrong: str) -> bool:
        entry = self.entries[wrong]
        return isinstance(entry, dict) and entry.get("disabled") is True


def function_suffix(server: str) -> str:
    """Return a server's name with what function names cannot contain replaced."""
    return _NOT_IN_NAMES.sub("_", server)


def _members(members: Members) -> Iterator[str]:
    parts = members.split(",") if isinstance(members, str) else members
    return (part.strip() for part in parts if part.strip())
