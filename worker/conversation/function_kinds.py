"""The kinds of functions that a model may call: they differ in what a call does and leaves behind.

Functions that agents bring:

    ProgramFunction     runs a program of a tool file, which may ask for a person's consent
    ServerFunction      calls an MCP server; those of one reply are called concurrently

The engine's own functions, which know and change what a run remembers, its notebook:

    PureFunction        computes a result and the next notebook, and does nothing else
    TransitionFunction  reads or changes the store
    WaitingFunction     also waits, for a person or another run, without holding a worker

To add a function of the engine, take the first of these kinds that will do, and write a file or a
line in worker/agents/builtin/. It does not have to care about lost workers: the loop (loop.py)
records each result before the model sees it, carries out no call twice whose result is recorded,
and restores the notebook from recorded results: it computes pure functions again, and has others
`learn` from the result. So these two must depend on their parameters alone. A call that fails
raises `CallRefused` with its result and changes nothing; no failure ends a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from sleipnir.graphs.mcp.filters import Layer
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.conversation.declaring import Arguments, Declared
from sleipnir.worker.llm.client import Declaration
from sleipnir.worker.tools.call import Completed, NeedsConfirmation
from sleipnir.worker.visit.outcome import Asked, ChildEnd

# Adds an entry to the conversation in a transition that does more than that. Takes position, entry,
# event and usage, as `ConversationService.record` does.
Recorder: TypeAlias = Callable[[int, Mapping[str, Any], Event | None, Usage], None]


class CallRefused(Exception):
    """The call has changed nothing; `value` is its result."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        super().__init__(str(value))
        self.value = value


def call_error(reason: str) -> CallRefused:
    """Return the refusal of a call that is not as the function takes it, or cannot be made."""
    return CallRefused({"tool_call_error": reason})


def refusal(message: str) -> CallRefused:
    """Return the refusal of a call that is valid, but not possible now; `message` says why."""
    return CallRefused({"status": "error", "message": message})


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call of a function, with its arguments parsed."""

    name: str
    arguments: Arguments
    key: str  # the same for every try of this call
    place: int = 1  # among the calls of this function in its reply, from 1
    approvals: tuple[str, ...] = ()  # the questions that a person answered with yes
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call that changes or reads the store."""

    value: Any
    usage: Usage = NO_USAGE  # of models that were asked for it
    # Records the result, and changes the store in the same transition.
    recorder: Recorder | None = None
    # What the recorder raises if there is nothing to change, and what the model is told then.
    refusals: Mapping[type[Exception], Callable[[], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProgramFunction:
    """A function of a tool file; its calls in one reply are made one after the other."""

    declaration: Declaration
    call: Callable[[FunctionCall], Completed | NeedsConfirmation]

    @property
    def name(self) -> str:
        return str(self.declaration["function"]["name"])


@dataclass(frozen=True, slots=True)
class ServerFunction(ProgramFunction):
    """A function of an MCP server."""

    # Returns the function under more filters; None if they leave nothing of it.
    narrowed: Callable[[Sequence[Layer]], ProgramFunction | None]


@dataclass(frozen=True, slots=True)
class _EngineFunction:
    declared: Declared

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def declaration(self) -> Declaration:
        return self.declared.for_models()

    def read(self, call: FunctionCall) -> FunctionCall:
        """Return the call with valid arguments.

        Raises:
            CallRefused: they are invalid.
        """
        try:
            arguments = self.declared.read(call.arguments)
        except ValueError as error:
            raise call_error(f"{self.name}: {error}") from None
        return FunctionCall(call.name, arguments, call.key, call.place)


@dataclass(frozen=True, slots=True)
class PureFunction(_EngineFunction):
    """Computes the next notebook and a result; a turn of such calls is recorded by its commit."""

    compute: Callable[[Notebook, Arguments], tuple[Notebook, Any]]


def learn_nothing(notebook: Notebook, _call: FunctionCall, _value: Any) -> Notebook:
    """Return the notebook as it is."""
    return notebook


# Returns the notebook after a call with this result.
Learn: TypeAlias = Callable[[Notebook, FunctionCall, Any], Notebook]


@dataclass(frozen=True, slots=True)
class TransitionFunction(_EngineFunction):
    """Reads or changes the store.

    What `act` does before the result is recorded may be done once more by another worker, with the
    same key, and must take effect once; else it belongs into the result's `recorder`.
    """

    act: Callable[[Notebook, FunctionCall], CallResult]
    learn: Learn = learn_nothing


@dataclass(frozen=True, slots=True)
class WaitingFunction(_EngineFunction):
    """Begins to wait, or returns a result at once; `finish` makes a result of what has arrived.

    What arrives is JSON text: an answer, or how a child ended; "" if the time ran out first.
    """

    begin: Callable[[Notebook, FunctionCall], CallResult | Asked | ChildEnd]
    finish: Callable[[Notebook, FunctionCall, str], CallResult]
    learn: Learn = learn_nothing


EngineFunction: TypeAlias = PureFunction | TransitionFunction | WaitingFunction
OfferedFunction: TypeAlias = ProgramFunction | EngineFunction


def is_refusal(value: Any) -> bool:
    """Return whether a recorded result is that of a call that changed nothing."""
    if not isinstance(value, Mapping):
        return False
    return value.get("status") == "error" or "tool_call_error" in value
