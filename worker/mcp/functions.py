"""The functions that an agent's MCP servers provide for its models.

A server has three of them, `mcp_search_…`, `mcp_describe_…` and `mcp_invoke_…`, so that one with
many tools does not fill the model's context. If a node names a tool, or the server has `"expose":
"direct"`, the tool is a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from sleipnir.graphs.mcp.config import McpConfig, McpServer, function_suffix
from sleipnir.graphs.mcp.filters import Layer, is_closed, stopping
from sleipnir.graphs.tools.function import declaration_of
from sleipnir.records import dataclass
from sleipnir.scheduler.config.secrets import Secrets, hidden
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable
from sleipnir.scheduler.schema_checks import pool as checks
from sleipnir.scheduler.schema_checks.checking import SchemaInvalid, Unchecked
from sleipnir.worker.mcp.failures import McpFailed, McpUnavailable
from sleipnir.worker.mcp.media import without_media
from sleipnir.worker.mcp.pool import McpPool
from sleipnir.worker.mcp.schemas import declared_to_models
from sleipnir.worker.mcp.three_functions import (
    DESCRIBE,
    INVOKE,
    SEARCH,
    describe_tool,
    invoke_tool,
    search_tools,
)
from sleipnir.worker.mcp.tool import McpTool, ToolList
from sleipnir.worker.visit.cancellation import Cancellation

_LONGEST_NAME = 64
_MISFITS_SHOWN = 5  # the first usually causes the others

_Arguments: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class McpFunction:
    """A function as the model sees it, and what calling it does."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    failing: str  # what a message names as failed: `search`, `describe` or `invocation`
    act: Callable[[McpServers, McpServer, _Arguments, float], Any]
    servers: McpServers
    server: McpServer
    tool: str | None = None  # None: one of the three

    def declaration(self) -> dict[str, Any]:
        """The function's declaration for chat models."""
        return declaration_of(self.name, self.description, self.parameters)

    def call(self, arguments: _Arguments, timeout_s: float | None = None) -> Any:
        """Return the result as JSON; for a failure, `{"tool_call_error": …}`. Never raises.

        `timeout_s` can only shorten the configured limit. Thread-safe.
        """
        most_s = self.servers.timeout_s
        limit = most_s if timeout_s is None else min(timeout_s, most_s)
        try:
            return hidden(self.act(self.servers, self.server, arguments, limit))
        except (McpFailed, McpUnavailable) as error:
            return {"tool_call_error": hidden(f"{self.failing} failed: {error}")}

    def narrowed(self, layers: Sequence[Layer]) -> McpFunction | None:
        """Return the function under more filters; None if they leave nothing of it."""
        name = self.server.name
        if is_closed(layers, name) or (self.tool and stopping(layers, name, self.tool)):
            return None
        return replace(self, servers=self.servers.narrowed(layers))


@dataclass(frozen=True, slots=True)
class ResolvedTools:
    """The functions found for one node, and warnings about those missing."""

    functions: tuple[McpFunction, ...] = ()
    warnings: tuple[str, ...] = ()  # for the narration: a server's name, and why it is missing


@dataclass(frozen=True, slots=True)
class McpServers:
    """The servers of one agent, as one visit uses them."""

    config: McpConfig  # of the bundle
    entries: Sequence[str]  # the agent's `mcp_servers`
    pool: McpPool
    secrets: Secrets
    workdir: Path
    timeout_s: float  # the setting `mcp_timeout`
    cancellation: Cancellation = field(default_factory=Cancellation)
    layers: Sequence[Layer] = ()  # what all tools must pass

    def narrowed(self, layers: Sequence[Layer]) -> McpServers:
        """Return the servers under more filters."""
        return replace(self, layers=(*self.layers, *layers))

    def resolve(
        self,
        whole: Iterable[str] | None = None,
        names: Sequence[str] = (),
        taken: Iterable[str] = (),
    ) -> ResolvedTools:
        """Return the functions of whole servers, and single ones by name; start servers as needed.

        Args:
            whole: servers, aliases or `all`, as after `mcp:`; None: all servers of the agent.
            names: entries of a node's `tools` that match nothing else: one of the three functions,
                or a tool, with or without `<server>__` in front.
            taken: names of functions that the node has from elsewhere.
        """
        return _Resolution(self, taken).made(whole, names)

    # ---- called by functions

    def tools(self, server: McpServer, timeout_s: float) -> tuple[McpTool, ...]:
        """Return the tools of a server that pass the filters."""
        listed = self.pool.tools(server, self.workdir, timeout_s, self.cancellation)
        return self.passing(server, listed)

    def passing(self, server: McpServer, tools: Iterable[McpTool]) -> tuple[McpTool, ...]:
        return tuple(
            tool for tool in tools if stopping(self.layers, server.name, tool.name) is None
        )

    def require_passing(self, server: McpServer, tool: str) -> None:
        """Raise `McpFailed`, naming the filter that a tool does not pass, if there is one."""
        if layer := stopping(self.layers, server.name, tool):
            raise McpFailed(f"{layer.name} does not let tool '{tool}' pass")

    def invoke(
        self, server: McpServer, tool: McpTool, arguments: _Arguments, timeout_s: float
    ) -> dict[str, Any]:
        self._refuse_misfits(tool, arguments)
        result = self.pool.call(
            server, self.workdir, tool.name, arguments, timeout_s, self.cancellation
        )
        return without_media(result)

    def _refuse_misfits(self, tool: McpTool, arguments: _Arguments) -> None:
        """Check arguments against the tool's declared schema, if that can be used."""
        try:
            found = checks.misfits(dict(tool.parameters), dict(arguments), self.pool.check_limit_s)
        except checks.TookTooLong as error:
            raise McpFailed(f"the arguments {error}") from error
        except (SchemaInvalid, Unchecked):
            return  # leave it to the server
        if found:
            shown = "; ".join(f"{path}: {message}" for path, message in found[:_MISFITS_SHOWN])
            raise McpFailed(f"the arguments are not what the tool declares: {shown}")


class _Resolution:
    """Finds the functions of one node, and starts the servers that have them."""

    def __init__(self, servers: McpServers, taken: Iterable[str]) -> None:
        self._servers = servers
        entries = servers.config.resolve(servers.entries)  # in the agent's order
        self._names = [name for name in entries if not is_closed(servers.layers, name)]
        self._closed = [name for name in entries if name not in self._names]
        self._taken = set(taken)
        self._functions: list[McpFunction] = []
        # (server, tool) pairs that are functions already
        self._direct: set[tuple[str, str]] = set()
        self._ready: dict[str, tuple[McpServer, ToolList]] = {}
        self._missing: dict[str, str] = {}  # why servers are not ready, by name

    def made(self, whole: Iterable[str] | None, names: Sequence[str]) -> ResolvedTools:
        meant = self._names if whole is None else self._servers.config.resolve(whole)
        wholly = [name for name in self._names if name in meant]
        closed = {name for server in self._closed for name in _three_names(server)}
        owners = {name: self._owners(name) for name in names if name not in closed}
        self._start(dict.fromkeys([*wholly, *(o for found in owners.values() for o in found)]))
        for server in wholly:
            if server in self._ready:
                self._add_whole(*self._ready[server])
        unknown = [name for name in owners if not self._add_named(name, owners[name])]
        concerned = {*wholly, *(owner for name in unknown for owner in owners[name])}
        warnings = [
            f"MCP server '{name}' is unavailable: {hidden(reason)}"
            for name, reason in self._missing.items()
            if name in concerned
        ]
        if not warnings:
            warnings = [f"no MCP server has a function '{name}'" for name in unknown]
        warnings += [
            f"MCP server '{name}': {hidden(odd)}"
            for name, (_, listed) in self._ready.items()
            if name in concerned
            for odd in listed.warnings
        ]
        return ResolvedTools(tuple(self._functions), tuple(warnings))

    def _owners(self, name: str) -> Sequence[str]:
        """Return the servers that may have a function of that name."""
        for server in self._names:
            if name in _three_names(server):
                return (server,)
        return self._names

    def _start(self, names: Iterable[str]) -> None:
        usable: list[McpServer] = []
        for name in names:
            try:
                usable.append(self._usable(name))
            except (McpUnavailable, SecretsMissing, SecretsUnusable) as error:
                self._missing[name] = str(error)
        if not usable:
            return
        visit = self._servers
        answers = visit.pool.tools_of(usable, visit.workdir, visit.timeout_s, visit.cancellation)
        for server, answer in zip(usable, answers, strict=True):
            if isinstance(answer, McpUnavailable):
                self._missing[server.name] = str(answer)
            else:
                self._ready[server.name] = (server, answer)

    def _usable(self, name: str) -> McpServer:
        """Return the server with its secrets resolved."""
        server = self._servers.config.servers.get(name)
        if server is None:
            raise McpUnavailable("mcp.json does not have it")
        if server.disabled:
            raise McpUnavailable("it is disabled in mcp.json")
        if server.oauth and not server.headers:
            raise McpUnavailable("it asks for OAuth; give it a token in 'headers' instead")
        return server.with_secrets(self._servers.secrets.resolve)

    def _add_whole(self, server: McpServer, listed: ToolList) -> None:
        if server.expose == "direct":
            for tool in self._servers.passing(server, listed.tools):
                self._offer_tool(server, tool, tool.name)
            return
        for function in self._three(server):
            self._add(function)

    def _add_named(self, name: str, owners: Sequence[str]) -> bool:
        """Add the function of that name; return whether there is one."""
        for server, listed in (self._ready[owner] for owner in owners if owner in self._ready):
            three = {function.name: function for function in self._three(server)}
            if name in three:
                self._add(three[name])
                return True
            bare = name.removeprefix(f"{function_suffix(server.name)}__")
            bare = bare.removeprefix(f"{server.name}__")
            for tool in self._servers.passing(server, listed.tools):
                if tool.name in (name, bare) or _legal(tool.name) == bare:
                    self._offer_tool(server, tool, name)
                    return True
        return False

    def _offer_tool(self, server: McpServer, tool: McpTool, name: str) -> None:
        if (server.name, tool.name) in self._direct:
            return
        self._direct.add((server.name, tool.name))
        self._add(
            McpFunction(
                self._free_name(server, _legal(name)),
                tool.description,
                declared_to_models(tool.parameters),
                "invocation",
                partial(_invoke, tool),
                self._servers,
                server,
                tool.name,
            )
        )

    def _free_name(self, server: McpServer, name: str) -> str:
        """Return the name, or one like it if it is taken: names differ in what is not legal."""
        for free in (name, _legal(f"{server.name}__{name}")):
            if free not in self._taken:
                return free
        numbered = (f"{name[: _LONGEST_NAME - 5]}_{number}" for number in count(2))
        return next(free for free in numbered if free not in self._taken)

    def _add(self, function: McpFunction) -> None:
        if function.name not in self._taken:
            self._taken.add(function.name)
            self._functions.append(function)

    def _three(self, server: McpServer) -> tuple[McpFunction, ...]:
        search_name, describe_name, invoke_name = _three_names(server.name)
        return (
            McpFunction(
                search_name,
                f"Search the tools of the server '{server.name}'. Returns names and descriptions; "
                f"pass a name to {describe_name}.",
                SEARCH,
                "search",
                search_tools,
                self._servers,
                server,
            ),
            McpFunction(
                describe_name,
                f"Return the arguments that a tool of the server '{server.name}' takes. Call this "
                f"before {invoke_name}.",
                DESCRIBE,
                "describe",
                describe_tool,
                self._servers,
                server,
            ),
            McpFunction(
                invoke_name,
                f"Call a tool of the server '{server.name}', with arguments as returned by "
                f"{describe_name}. Returns the tool's result.",
                INVOKE,
                "invocation",
                invoke_tool,
                self._servers,
                server,
            ),
        )


def _invoke(
    tool: McpTool, servers: McpServers, server: McpServer, arguments: _Arguments, timeout_s: float
) -> dict[str, Any]:
    return servers.invoke(server, tool, arguments, timeout_s)


def _three_names(server: str) -> tuple[str, str, str]:
    suffix = function_suffix(server)
    return f"mcp_search_{suffix}", f"mcp_describe_{suffix}", f"mcp_invoke_{suffix}"


def _legal(name: str) -> str:
    return function_suffix(name)[:_LONGEST_NAME]
