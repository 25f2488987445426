"""The functions that one node's model may call, wherever they come from."""

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
    """One call of a function, with its arguments parsed."""

    name: str
    arguments: dict[str, Any]
    key: str  # the same for every try of this call
    approvals: tuple[str, ...] = ()  # the questions that a person answered with yes
    timeout_s: float | None = None
    place: int = 1  # position among the calls of this function in its reply, from 1
    # The recorded result, if a turn is resumed and only the call's effect on the commit is
    # repeated.
    known: Any = None
    arrived: str | None = None  # result of what the call was waiting for, if anything


@dataclass(frozen=True, slots=True)
class Waits:
    """The call's result is that of what it waits for; it has changed nothing yet."""

    thing: Asked | ChildEnd


# Records an entry of the conversation, together with whatever belongs to the same transition. Takes
# position, entry, event and usage, as `ConversationService.record` does.
Recorder: TypeAlias = Callable[[int, Mapping[str, Any], Event | None, Usage], None]


@dataclass(frozen=True, slots=True)
class Effect:
    """The call changes the engine's state, once, in the transition that records its result."""

    value: Any
    record: Recorder  # raises `EffectRefused` if there is nothing to change


class EffectRefused(Exception):
    """The call has changed nothing; `result` is its result."""

    def __init__(self, value: Any) -> None:
        super().__init__(str(value))
        self.value = value


CallOutcome: TypeAlias = Completed | NeedsConfirmation | Waits | Effect


@dataclass(frozen=True, slots=True)
class ResolvedTool:
    """One function: its declaration for the model, and how it is called."""

    declaration: Declaration
    call: Callable[[ToolInvocation], CallOutcome]
    # Whether calls of one turn may run concurrently; otherwise they run in order.
    overlaps: bool = False
    # Whether it takes effect with the turn's commit only, and must be called again when the turn is
    # resumed.
    in_commit: bool = False
    # Whether it returns at once and changes nothing but the turn's commit. Turns with such calls
    # only are not recorded before their commit.
    at_once: bool = False

    @property
    def name(self) -> str:
        return str(self.declaration["function"]["name"])


@dataclass(frozen=True, slots=True)
class Toolset:
    """The functions offered to one node's model, by name."""

    tools: Mapping[str, ResolvedTool] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # about functions that could not be offered
    # Other names by which the model may call some of them; these are not declared to it.
    aliases: Mapping[str, str] = field(default_factory=dict)
    # How long a guarded tool waits for consent; None: forever.
    consent_within_s: float | None = None

    def with_tools(self, more: Iterable[ResolvedTool]) -> Toolset:
        """Return the set with more functions added at the end."""
        added = {tool.name: tool for tool in more}
        return replace(self, tools={**self.tools, **added}) if added else self

    @property
    def declarations(self) -> list[Declaration]:
        return [tool.declaration for tool in self.tools.values()]


NO_TOOLS = Toolset()
