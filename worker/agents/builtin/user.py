"""Functions that ask a person; a call waits for its answer without holding a worker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.asking import (
    ALIASES,
    PREFIX,
    TOO_LARGE,
    AskKind,
    answered,
    is_too_large,
    no_person,
    timed_out,
)
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.worker.conversation.declaring import Declared, Param
from sleipnir.worker.conversation.function_kinds import (
    CallResult,
    FunctionCall,
    WaitingFunction,
    call_error,
)
from sleipnir.worker.llm.client import Message
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked

_QUESTION = {"question": Param("string", "The question.")}
_OPTIONS = {"options": Param("array", "The options to choose from.", encoded=True)}
_CHOICE = _QUESTION | _OPTIONS
_FUNCTIONS: dict[AskKind, Declared] = {
    "ask": Declared(
        f"{PREFIX}ask",
        "Ask the user to choose one option or to answer in their own words. Returns the answer.",
        _CHOICE,
    ),
    "confirm": Declared(
        f"{PREFIX}confirm", "Ask the user a yes-or-no question. Returns yes or no.", _QUESTION
    ),
    "input": Declared(
        f"{PREFIX}input", "Ask the user to enter a text. Returns the text.", _QUESTION
    ),
    "checkbox": Declared(
        f"{PREFIX}checkbox",
        "Ask the user to choose any number of options. Returns the chosen ones.",
        _CHOICE,
    ),
}


def user_tools(visit: Visit[TurnNode], before: Sequence[Message]) -> Iterator[WaitingFunction]:
    """Yield the functions; calls in `before`, the conversation, have used up advance answers."""
    earlier = Counter(
        ALIASES.get(call["function"]["name"], call["function"]["name"])
        for message in (before if visit.context.answers else ())
        for call in message.get("tool_calls") or ()
    )
    for kind, declared in _FUNCTIONS.items():
        asking = _Asking(visit, kind, declared, earlier[declared.name])
        yield WaitingFunction(declared, asking.begin, asking.finish)


@dataclass(frozen=True, slots=True)
class _Asking:
    visit: Visit[TurnNode]
    kind: AskKind
    declared: Declared
    earlier: int  # calls of the function in earlier turns

    def begin(self, _: Notebook, call: FunctionCall) -> CallResult | Asked:
        question, options = call.arguments["question"], self._options(call)
        if is_too_large(question, options):
            raise call_error(f"{call.name}: {TOO_LARGE}")
        ahead = self._ahead(call)
        if ahead is not None:
            return CallResult(answered(self.kind, options, ahead))
        if self.visit.context.is_unattended:
            return CallResult(no_person(self.kind, question, options))
        shown = ("yes", "no") if self.kind == "confirm" else options
        return Asked(self.kind, question, shown, allowed_s=asking_limit_s(self.visit))

    def finish(self, _: Notebook, call: FunctionCall, arrived: str) -> CallResult:
        options = self._options(call)
        if arrived:
            return CallResult(answered(self.kind, options, json.loads(arrived)["answer"]))
        if self.visit.context.headless:
            return CallResult(no_person(self.kind, call.arguments["question"], options))
        return CallResult(timed_out(self.visit.node.config.escalation_timeout))

    def _options(self, call: FunctionCall) -> tuple[str, ...]:
        offers = "options" in self.declared.parameters
        return tuple(call.arguments["options"]) if offers else ()

    def _ahead(self, call: FunctionCall) -> str | None:
        """Return an answer submitted in advance: the n-th call of a function takes the n-th."""
        given = self.visit.context.answers.get(call.name, ())
        place = self.earlier + call.place
        return given[place - 1] if place <= len(given) else None


def asking_limit_s(visit: Visit[TurnNode]) -> float | None:
    """Return how long the run's questions stay open; None: forever, as a root's always do."""
    return visit.node.config.escalation_timeout or None if visit.context.depth else None
