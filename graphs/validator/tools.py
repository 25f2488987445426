"""Rules about tools and MCP servers: E209, E210, E602 to E608, E614, W021, W039, W037, W603."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from sleipnir.graphs.document.finding import Finding, listing
from sleipnir.graphs.mcp.config import ALL_SERVERS, function_suffix
from sleipnir.graphs.mcp.filters import Layer, ToolFilter
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.graphs.tools.function import Function
from sleipnir.graphs.tools.toolbox import SERVER_PREFIX
from sleipnir.graphs.validator import tool_files
from sleipnir.graphs.validator.context import Context, near_names

Place: TypeAlias = tuple[str | int, ...]


def servers_are_configured(context: Context) -> Iterator[Finding]:
    """W021: the run goes on without the functions of a server that is missing or cannot start.

    E608 instead, if it is described wrongly, or the servers' file is unusable.
    """
    resources, names = context.resources, context.graph.mcp_servers
    if names and resources.mcp_findings:
        yield from resources.mcp_findings
        return
    wrong = resources.mcp.wrong
    for server in resources.mcp.resolve(names):
        yield from wrong.get(server, ())
    for index, server, hint in servers_of(context):
        if hint is not None and server not in wrong:
            yield context.finding("W021", unavailable(server), "mcp_servers", index, hint=hint)


def filters_concern_listed_servers(context: Context) -> Iterator[Finding]:
    """E614, W037: a filter of the tools of a server that the agent does not use."""
    graph, config = context.graph, context.resources.mcp
    if ALL_SERVERS in graph.mcp_servers:
        yield from _filters_of_unknown_servers(context)
        return
    listed = set(config.resolve(graph.mcp_servers))
    for path, written in _filters(graph):
        others = [
            name
            for name in written or ()
            if name != ALL_SERVERS and listed.isdisjoint(config.resolve([name]))
        ]
        hints = near_names(others, graph.mcp_servers)
        for name in others:
            where = f"node '{path[1]}': " if path else ""
            message = f"{where}'mcp_tools' names '{name}', which 'mcp_servers' does not list"
            hint = hints.get(name, f"add '{name}' to mcp_servers")
            code = "E614" if path else "W037"
            yield context.finding(code, message, *path, "mcp_tools", name, hint=hint)


def _filters_of_unknown_servers(context: Context) -> Iterator[Finding]:
    """W037 where an agent uses all servers: a misspelt name would restrict nothing."""
    config = context.resources.mcp
    known = {*config.servers, *config.wrong, *config.aliases, ALL_SERVERS}
    others = [
        (path, name)
        for path, written in _filters(context.graph)
        for name in written or ()
        if name not in known
    ]
    hints = near_names((name for _, name in others), known)
    for path, name in others if config.servers else ():
        where = f"node '{path[1]}': " if path else ""
        message = f"{where}'mcp_tools' names '{name}', which is not configured"
        yield context.finding("W037", message, *path, "mcp_tools", name, hint=hints.get(name))


def _filters(graph: Graph) -> Iterator[tuple[Place, ToolFilter | None]]:
    yield (), graph.mcp_tools
    for node_id, node in graph.nodes_of(LlmNode):
        yield ("nodes", node_id), node.mcp_tools


def servers_of(context: Context) -> Iterator[tuple[int, str, str | None]]:
    """Yield an agent's servers: index of the entry, name, and a hint if it cannot start."""
    config = context.resources.mcp
    known = {*config.servers, ALL_SERVERS}
    hints = near_names(context.graph.mcp_servers, known | config.aliases.keys())
    for index, entry in enumerate(context.graph.mcp_servers):
        for server in config.aliases.get(entry, (entry,)):
            hint = _obstacle(server, context)
            if server in config.wrong:
                hint = config.wrong[server][0].message
            elif server not in known:
                hint = hints.get(server, f"describe '{server}' in mcp.json")
            yield index, server, hint


def _obstacle(server: str, context: Context) -> str | None:
    """Return what keeps a server, or any of them for `all`, from starting on this machine."""
    find, programs = context.resources.find_program, context.resources.mcp.programs
    names = sorted(programs) if server == ALL_SERVERS and server not in programs else [server]
    missing = dict.fromkeys(
        programs[name] for name in names if find and name in programs and not find(programs[name])
    )
    if not missing:
        return None
    return f"not on the PATH of this machine: {listing(list(missing))}"


def tool_files_are_usable(context: Context) -> Iterator[Finding]:
    """E602 to E606: the agent's tool files must declare their functions correctly."""
    yield from context.toolbox.findings


def global_tools_exist(context: Context) -> Iterator[Finding]:
    """E209, E607: entries of `global_tools` must be tool files, or aliases of some."""
    yield from tool_files.global_tools_exist(context.agent, context.toolbox)


def used_tools_can_run(context: Context) -> Iterator[Finding]:
    """W603: this machine must have what the tools of nodes need."""
    used = used_functions(context)
    yield from tool_files.machine_has_what_tools_need(context.agent, used, context.resources)


def used_functions(context: Context) -> tuple[Function, ...]:
    """Return the functions of tool files that `llm` nodes of a graph name."""
    graph = context.graph
    entries = (entry for _, node in graph.nodes_of(LlmNode) for entry in graph.listed_tools(node))
    return context.toolbox.select(entries).functions


def node_tools_exist(context: Context) -> Iterator[Finding]:
    """E209, E210: a node's `tools` must be among those its agent may use.

    W021 instead, if a name may belong to a server that cannot be asked; W039 if it rather resembles
    that of a tool.
    """
    entries: list[tuple[str, Place]] = [
        (entry, ("nodes", node_id, "tools", index))
        for node_id, node in context.graph.nodes_of(LlmNode)
        for index, entry in enumerate(node.tools or ())
        if entry in context.graph.listed_tools(node)
    ]
    if not entries:
        return
    servers = _Servers(context)
    toolbox, meta = context.toolbox, servers.meta_functions()
    unexplained: list[tuple[str, Place]] = []
    for entry, path in entries:
        if not entry.startswith(SERVER_PREFIX):
            if entry not in meta and toolbox.select([entry]).others:
                unexplained.append((entry, path))
        elif (server := entry.removeprefix(SERVER_PREFIX)) not in servers.names:
            message = f"node '{path[1]}': unknown MCP server '{server}'"
            yield context.finding("E210", message, *path, hint=servers.hint(server))
    # The functions of an unreadable file are unknown, which is reported elsewhere.
    if not toolbox.is_broken:
        yield from _unexplained(context, servers, unexplained)


def _unexplained(
    context: Context, servers: _Servers, entries: Sequence[tuple[str, Place]]
) -> Iterator[Finding]:
    """E209, W021, W039: entries that are neither tools nor, by their form, servers."""
    toolbox = context.toolbox
    known = servers.meta_functions() | {function.name for function in toolbox.functions}
    hints = near_names((entry for entry, _ in entries), known)
    for entry, path in entries:
        layer = servers.stopping(entry, str(path[1]))
        if layer is None and servers.offer(entry):
            if not servers.can_be_asked and entry in hints:
                message = f"node '{path[1]}': no tool file has '{entry}', perhaps an MCP server"
                yield context.finding("W039", message, *path, hint=hints[entry])
        elif layer is None and (silent := servers.silent()):
            yield context.finding("W021", unavailable(silent), *path)
        else:
            message = f"node '{path[1]}': unknown tool '{entry}'"
            listed = toolbox.exists(entry)
            hint = f"add '{entry}' to global_tools" if listed else hints.get(entry)
            if layer is not None:
                stopped = f"{layer.name} lets no MCP server offer it"
                hint = stopped if hint is None else f"{hint}; {stopped}"
            yield context.finding("E209", message, *path, hint=hint)


class _Servers:
    """The MCP servers of an agent; each is asked for its functions at most once, when needed."""

    def __init__(self, context: Context) -> None:
        entries, config = context.graph.mcp_servers, context.resources.mcp
        self._config = config
        self._graph = context.graph
        self._layers = (*config.layers, config.layer("the agent", context.graph.mcp_tools))
        self._groups = {ALL_SERVERS, *config.aliases} - config.servers.keys()
        members = [server for entry in entries for server in config.aliases.get(entry, ())]
        everything = sorted(config.servers) if ALL_SERVERS in entries else []
        self.names = list(dict.fromkeys([*entries, *members, *everything]))
        self._ask = context.resources.list_mcp_functions
        self._answers: dict[str, Collection[str] | None] = {}

    @property
    def can_be_asked(self) -> bool:
        """Whether what they offer is known rather than assumed."""
        return self._ask is not None

    def hint(self, unknown: str) -> str | None:
        """Return which server an unknown name may have meant."""
        if unknown in self._config.servers:
            return f"add '{unknown}' to mcp_servers"
        return near_names([unknown], self.names).get(unknown)

    def meta_functions(self) -> set[str]:
        """Return the functions that find, describe and call the functions of servers."""
        verbs = ("search", "describe", "invoke")
        return {f"mcp_{verb}_{function_suffix(server)}" for server in self.names for verb in verbs}

    def offer(self, tool: str) -> bool:
        """Return whether a server has the function; assumed if servers cannot be asked."""
        if self._ask is None:
            return any(server in self._config.servers for server in self.names)
        return any(
            not _names_at(server, tool).isdisjoint(self._functions(server) or ())
            for server in self.names
        )

    def stopping(self, tool: str, node_id: str) -> Layer | None:
        """Return a filter that keeps a node from the function on every server; None: none does."""
        node = self._graph.nodes[node_id]
        assert isinstance(node, LlmNode), "only these name tools"
        layers = [*self._layers, self._config.layer(f"node '{node_id}'", node.mcp_tools)]
        found = None
        for server in self._config.resolve(self._graph.mcp_servers):
            names = _names_at(server, tool)
            stopped = [
                layer
                for layer in layers
                if not any(layer.may_admit(server, name) for name in names)
            ]
            if not stopped:
                return None
            found = found or stopped[0]
        return found

    def silent(self) -> str | None:
        """Return the first server that cannot be asked."""
        unheard = (name for name in self.names if name not in self._groups)
        return next((name for name in unheard if self._functions(name) is None), None)

    def _functions(self, server: str) -> Collection[str] | None:
        if server not in self._answers:
            ask = self._ask if server in self._config.servers else None
            self._answers[server] = ask(server) if ask else None
        return self._answers[server]


def _names_at(server: str, function: str) -> set[str]:
    """Return the names that a server may have for the tool that a node names."""
    prefixes = (f"{server}__", f"{function_suffix(server)}__")
    return {function, *(function.removeprefix(prefix) for prefix in prefixes)}


def unavailable(server: str) -> str:
    """Return the message for a server that cannot be used."""
    return f"MCP server '{server}' is unavailable; its functions are missing"
