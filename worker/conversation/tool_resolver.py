"""Resolves the `tools` of a node to the functions its model may call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sleipnir.graphs.mcp.filters import Layer
from sleipnir.graphs.schema import LlmNode
from sleipnir.graphs.tools.function import Function
from sleipnir.graphs.tools.toolbox import ToolSelection
from sleipnir.records import dataclass
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable
from sleipnir.scheduler.runs.events import ToolPrinted
from sleipnir.worker.conversation.function_kinds import (
    FunctionCall,
    ProgramFunction,
    ServerFunction,
)
from sleipnir.worker.conversation.tool_recording import ToolRecording
from sleipnir.worker.conversation.tool_set import Toolset
from sleipnir.worker.mcp.functions import McpFunction, McpServers
from sleipnir.worker.mcp.pool import McpPool
from sleipnir.worker.tools.call import Completed, NeedsConfirmation, call_function
from sleipnir.worker.tools.context import ToolContext
from sleipnir.worker.tools.sanitize import cleaned
from sleipnir.worker.visit.context import Visit


@dataclass(frozen=True, slots=True)
class ToolResolver:
    """What one worker process needs for calling tools; thread-safe."""

    settings: Settings
    secrets: Secrets
    mcp: McpPool
    cache: Path  # of directories that tools find again on this machine
    recording: ToolRecording

    def resolve(self, visit: Visit[LlmNode]) -> Toolset:
        """Return exactly the functions that a node lists, in its order."""
        listed = visit.graph.listed_tools(visit.node)
        return self._resolved(visit.agent.toolbox.select(listed), visit)

    def resolve_all(self, visit: Visit[Any]) -> Toolset:
        """Return all functions of the visit's agent: global tools, its own, its servers'."""
        functions = visit.agent.toolbox.functions
        return self._resolved(ToolSelection(functions, tuple(visit.graph.mcp_servers)), visit)

    def resolve_more(
        self,
        visit: Visit[Any],
        functions: Sequence[Function],
        servers: Sequence[str],
        taken: Iterable[str],
    ) -> Toolset:
        """Return functions of tool files and of whole servers, to be added to the agent's own.

        Args:
            taken: names of the functions that the agent has already.
        """
        selection = ToolSelection(tuple(functions), tuple(servers))
        return self._resolved(selection, visit, servers, taken)

    def make_instructions(self, visit: Visit[Any]) -> Completed | NeedsConfirmation:
        """Call the `_instructions` function of the agent's tool file, which must exist."""
        function = visit.agent.toolbox.instructions
        assert function is not None, "validated before the run"
        call = FunctionCall(function.name, {}, f"{visit.idempotency_key}:{function.name}")
        return self._call(function, visit, replace(call, timeout_s=visit.seconds_left(None)))

    def _resolved(
        self,
        selection: ToolSelection,
        visit: Visit[Any],
        entries: Sequence[str] | None = None,
        taken: Iterable[str] = (),
    ) -> Toolset:
        tools = [self._of_file(function, visit) for function in selection.functions]
        if entries is None:
            entries = visit.agent.graph.mcp_servers
        found, warnings = self._of_servers(selection, visit, entries, taken)
        around = self.recording.around
        return Toolset({tool.name: around(tool, visit) for tool in (*tools, *found)}, warnings)

    def _of_file(self, function: Function, visit: Visit[Any]) -> ProgramFunction:
        return ProgramFunction(function.declaration(), partial(self._call, function, visit))

    def _of_servers(
        self,
        selection: ToolSelection,
        visit: Visit[Any],
        entries: Sequence[str],
        taken: Iterable[str],
    ) -> tuple[Sequence[ProgramFunction], tuple[str, ...]]:
        if not (selection.servers or selection.others):
            return (), ()
        servers = McpServers(
            config=visit.agent.servers,
            entries=entries if self.settings.mcp_server_support else (),
            pool=self.mcp,
            secrets=self.secrets,
            workdir=visit.workdir(),
            timeout_s=self.settings.mcp_timeout,
            cancellation=visit.cancelled,
            layers=_filters(visit),
        )
        taken = [*taken, *(function.name for function in selection.functions)]
        made = servers.resolve(selection.servers, selection.others, taken)
        return [self._of_server(function, visit) for function in made.functions], made.warnings

    def _of_server(self, function: McpFunction, visit: Visit[Any]) -> ServerFunction:
        def narrowed(layers: Sequence[Layer]) -> ProgramFunction | None:
            narrower = function.narrowed(layers)
            if narrower is None:
                return None
            return self.recording.around(self._of_server(narrower, visit), visit)

        call = partial(_call_server, function, visit.secrets)
        return ServerFunction(function.declaration(), call, narrowed)

    def _call(
        self, function: Function, visit: Visit[Any], call: FunctionCall
    ) -> Completed | NeedsConfirmation:
        try:
            context = self._context(function.name, visit)
        except (SecretsMissing, SecretsUnusable) as error:
            return Completed({"tool_call_error": f"{function.name}: {error}"})
        return call_function(
            function,
            call.arguments,
            context,
            idempotency_key=call.key,
            approvals=call.approvals,
            timeout_s=call.timeout_s,
        )

    def _context(self, tool: str, visit: Visit[Any]) -> ToolContext:
        narrate = visit.services.narration.narrate
        return ToolContext(
            run_id=visit.run_id,
            agent=visit.agent.directory.name,
            agent_directory=visit.agent.directory,
            root=visit.agent.root,
            workdir=visit.workdir(),
            cache=self.cache,
            variables=visit.exported_variables(),
            secrets=visit.secrets,
            auto_confirm=visit.context.auto_confirms,
            cancellation=visit.cancelled,
            narrate=lambda line: narrate(ToolPrinted(visit.node_id, tool, line)),
            log=visit.services.run_log.keep,
        ).under(self.settings)


def _filters(visit: Visit[Any]) -> Sequence[Layer]:
    """Return the filters of the visit's agent, and that of its node."""
    agent, node = visit.agent, visit.node
    if not isinstance(node, LlmNode) or not node.mcp_tools:
        return agent.filters
    return (*agent.filters, agent.servers.layer(f"node '{node.id}'", node.mcp_tools))


def _call_server(function: McpFunction, secrets: Sequence[str], call: FunctionCall) -> Completed:
    return Completed(cleaned(function.call(call.arguments, call.timeout_s), secrets))
