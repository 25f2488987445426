"""Rules about tools and MCP servers: E209, E210, E608, W021."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from graphs.finding import Finding
from graphs.mcp_config import ALL_SERVERS, function_suffix
from graphs.schema import LlmNode
from graphs.tool_names import GlobalTools, own_functions
from graphs.validator.context import Context, near_names
from graphs.validator.resources import Resources

_SERVER_PREFIX = "mcp:"


def servers_are_configured(context: Context) -> Iterator[Finding]:
    """W021: the run goes on without the functions of a server that is not there.

    E608 instead, if nobody can tell because the file of them is wrong.
    """
    resources = context.resources
    known = resources.mcp_servers | {ALL_SERVERS}
    if context.graph.mcp_servers and resources.mcp_findings:
        yield from resources.mcp_findings
        return
    for index, entry in enumerate(context.graph.mcp_servers):
        for server in resources.mcp_aliases.get(entry, (entry,)):
            if server not in known:
                yield context.finding("W021", _unavailable(server), "mcp_servers", index)


def global_tools_exist(context: Context) -> Iterator[Finding]:
    """E209: each entry of `global_tools` is a tool file or an alias of some."""
    tools = _global_tools(context.resources)
    resolved = [tools.resolve(entry) for entry in context.graph.global_tools]
    hints = near_names((name for _, unknown in resolved for name in unknown), tools.names())
    for index, (_, unknown) in enumerate(resolved):
        for name in unknown:
            message = f"unknown tool '{name}'"
            yield context.finding("E209", message, "global_tools", index, hint=hints.get(name))


def node_tools_exist(context: Context) -> Iterator[Finding]:
    """E209, E210: a node's `tools` are within what its agent may use.

    W021 instead, if a name may belong to a server that cannot be asked.
    """
    entries = [
        (entry, ("nodes", node_id, "tools", index))
        for node_id, node in context.graph.nodes_of(LlmNode)
        for index, entry in enumerate(node.tools or ())
    ]
    if not entries:
        return
    servers = _Servers(context)
    universe = _Universe(context, servers)
    unexplained = []
    for entry, path in entries:
        if not entry.startswith(_SERVER_PREFIX):
            if not universe.holds(entry):
                unexplained.append((entry, path))
        elif (server := entry.removeprefix(_SERVER_PREFIX)) not in servers.names:
            yield context.finding("E210", f"node '{path[1]}': unknown MCP server '{server}'", *path)
    hints = near_names((entry for entry, _ in unexplained), universe.functions)
    for entry, path in unexplained:
        if servers.offer(entry):
            continue
        if silent := servers.silent():
            yield context.finding("W021", _unavailable(silent), *path)
        else:
            message = f"node '{path[1]}': unknown tool '{entry}'"
            hint = universe.remedy(entry) or hints.get(entry)
            yield context.finding("E209", message, *path, hint=hint)


class _Servers:
    """The MCP servers of an agent, each asked for its functions once and only if need be."""

    def __init__(self, context: Context) -> None:
        entries = context.graph.mcp_servers
        aliases = context.resources.mcp_aliases
        self._configured = context.resources.mcp_servers
        self._groups = {ALL_SERVERS, *aliases} - self._configured
        members = [server for entry in entries for server in aliases.get(entry, ())]
        everything = sorted(self._configured) if ALL_SERVERS in entries else []
        self.names = list(dict.fromkeys([*entries, *members, *everything]))
        self._ask = context.resources.list_mcp_functions
        self._answers: dict[str, Collection[str] | None] = {}

    def offer(self, tool: str) -> bool:
        """Whether one of them has the function; taken on trust where nobody can ask."""
        if self._ask is None:
            return any(server in self._configured for server in self.names)
        names = {tool, *(tool.removeprefix(f"{server}__") for server in self.names)}
        return any(not names.isdisjoint(self._functions(server) or ()) for server in self.names)

    def silent(self) -> str | None:
        """The first one that cannot be asked."""
        unheard = (name for name in self.names if name not in self._groups)
        return next((name for name in unheard if self._functions(name) is None), None)

    def _functions(self, server: str) -> Collection[str] | None:
        if server not in self._answers:
            ask = self._ask if server in self._configured else None
            self._answers[server] = ask(server) if ask else None
        return self._answers[server]


class _Universe:
    """The functions an agent's nodes may name, but for those of its MCP servers."""

    def __init__(self, context: Context, servers: _Servers) -> None:
        self._tools = _global_tools(context.resources)
        self._files: set[str] = set()
        for entry in context.graph.global_tools:
            self._files.update(self._tools.resolve(entry)[0])
        self.functions = own_functions(context.agent.directory)
        for file in self._files:
            self.functions |= self._tools.functions(file)
        for server in servers.names:
            suffix = function_suffix(server)
            self.functions |= {f"mcp_{verb}_{suffix}" for verb in ("search", "describe", "invoke")}

    def holds(self, entry: str) -> bool:
        """Whether it is a function, or stands for tool files, of this agent."""
        if entry in self.functions:
            return True
        files, unknown = self._tools.resolve(entry)
        return not unknown and self._files.issuperset(files)

    def remedy(self, entry: str) -> str | None:
        """What helps if the tool exists but is not this agent's."""
        _, unknown = self._tools.resolve(entry)
        return None if unknown else f"add '{entry}' to global_tools"


def _global_tools(resources: Resources) -> GlobalTools:
    return GlobalTools(resources.tool_directories, resources.mapping_tools)


def _unavailable(server: str) -> str:
    return f"MCP server '{server}' is unavailable; its functions are missing"
