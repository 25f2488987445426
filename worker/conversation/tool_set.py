"""The functions that one node's model may call, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from sleipnir.graphs.mcp.filters import Layer
from sleipnir.records import dataclass
from sleipnir.worker.conversation.function_kinds import OfferedFunction, ServerFunction
from sleipnir.worker.llm.client import Declaration


@dataclass(frozen=True, slots=True)
class Toolset:
    """The functions offered to one node's model, by name."""

    tools: Mapping[str, OfferedFunction] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # about functions that could not be offered
    # Other names by which the model may call some of them; these are not declared to it.
    aliases: Mapping[str, str] = field(default_factory=dict)
    undeclared: frozenset[str] = frozenset()  # names of functions that are not declared to it
    # How long a guarded tool waits for consent; None: forever.
    consent_within_s: float | None = None

    def with_tools(self, more: Iterable[OfferedFunction]) -> Toolset:
        """Return the set with more functions added at the end."""
        added = {tool.name: tool for tool in more}
        return replace(self, tools={**self.tools, **added}) if added else self

    def find(self, name: str) -> OfferedFunction | None:
        """Return the function that a model calls by this name; None if there is none."""
        return self.tools.get(self.aliases.get(name, name))

    def narrowed(self, layers: Sequence[Layer]) -> Toolset:
        """Return the set with more filters of MCP servers' tools."""
        if not layers:
            return self
        tools = (
            tool.narrowed(layers) if isinstance(tool, ServerFunction) else tool
            for tool in self.tools.values()
        )
        return replace(self, tools={tool.name: tool for tool in tools if tool is not None})

    @property
    def declarations(self) -> list[Declaration]:
        return [
            tool.declaration for name, tool in self.tools.items() if name not in self.undeclared
        ]


NO_TOOLS = Toolset()
