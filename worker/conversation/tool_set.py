"""The functions that the model of one node may call, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.llm.client import Declaration
from sleipnir.worker.tools.call import Completed, NeedsConfirmation
from sleipnir.worker.visit.outcome import Asked, ChildEnd


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One call of a function, its arguments parsed."""

    name: str
    arguments: dict[str, Any]
    key: str  # equal for every try of this call
    approvals: tuple[str, ...] = ()  # the questions a person said yes to
    timeout_s: float | None = None
    place: int = 1  # among the calls of this function in its reply
    # The result that was recorded, where a turn is taken up and only its part in the commit counts.
    known: Any = None
    arrived: str | None = None  # what came of the thing that it waits for, if it waited for any


@dataclass(frozen=True, slots=True)
class Waits:
    """The call's result is what comes of this; it has changed nothing yet."""

    thing: Asked | ChildEnd


# Records an entry of the conversation, with whatever else belongs to the same transition:
# position, entry, event, usage, as `ConversationService.record` takes them.
Recorder: TypeAlias = Callable[[int, Mapping[str, Any], Event | None, Usage], None]


@dataclass(frozen=True, slots=True)
class Effect:
    """The call changes something of the engine's, once: with the record of its result."""

    value: Any
    record: Recorder  # raises `EffectRefused` where there is nothing to change


class EffectRefused(Exception):
    """The call has changed nothing; this is its result."""

    def __init__(self, value: Any) -> None:
        super().__init__(str(value))
        self.value = value


CallOutcome: TypeAlias = Completed | NeedsConfirmation | Waits | Effect


@dataclass(frozen=True, slots=True)
class ResolvedTool:
    """One function: what the model is told of it, and how it is called."""

    declaration: Declaration
    call: Callable[[ToolInvocation], CallOutcome]
    # Calls of one turn may run side by side; all others keep their order.
    overlaps: bool = False
    # What it does lies in the commit of the turn: it is called again where a turn is taken up.
    in_commit: bool = False
    # It is over at once and changes nothing but what the turn commits: calls of nothing else are
    # not recorded before that.
    at_once: bool = False

    @property
    def name(self) -> str:
        return str(self.declaration["function"]["name"])


@dataclass(frozen=True, slots=True)
class Toolset:
    """All functions offered to one node's model, by name."""

    tools: Mapping[str, ResolvedTool] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # of what could not be offered
    # Other names under which some of them are called, without being told of.
    aliases: Mapping[str, str] = field(default_factory=dict)
    # How long a guarded tool waits for consent; None: for ever.
    consent_within_s: float | None = None

    def with_tools(self, more: Iterable[ResolvedTool]) -> Toolset:
        """The same, and more functions after them."""
        added = {tool.name: tool for tool in more}
        return replace(self, tools={**self.tools, **added}) if added else self

    @property
    def declarations(self) -> list[Declaration]:
        return [tool.declaration for tool in self.tools.values()]


NO_TOOLS = Toolset()
