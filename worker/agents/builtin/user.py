"""Functions that ask a person; a call waits for its answer without holding a worker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.state import decode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.asking import (
    PREFIX,
    TOO_LARGE,
    AskKind,
    answered,
    is_too_large,
    no_person,
    timed_out,
)
from sleipnir.worker.agents.builtin.declaring import Arguments, Param, declare, misfits
from sleipnir.worker.conversation.tool_set import ResolvedTool, ToolInvocation, Waits
from sleipnir.worker.llm.client import Message
from sleipnir.worker.tools.call import Completed
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked

# An alias that prompts of other tools use.
ALIASES = {f"{PREFIX}select": f"{PREFIX}ask"}

_QUESTION = Param("string", "What the person is asked.")
_DESCRIPTIONS: dict[AskKind, str] = {
    "ask": "Ask a person to choose one of several options, or to answer in their own words.",
    "confirm": "Ask a person for yes or no.",
    "input": "Ask a person for a text.",
    "checkbox": "Ask a person to choose any number of several options.",
}


def user_tools(visit: Visit[TurnNode], before: Sequence[Message]) -> Iterator[ResolvedTool]:
    """Yield the functions; calls in `before`, the conversation, have used up advance answers."""
    earlier = Counter(
        ALIASES.get(call["function"]["name"], call["function"]["name"])
        for message in (before if visit.context.answers else ())
        for call in message.get("tool_calls") or ()
    )
    for kind, description in _DESCRIPTIONS.items():
        parameters = {"question": _QUESTION}
        if kind in ("ask", "checkbox"):
            parameters["options"] = Param("array", "What there is to choose from.")
        name = f"{PREFIX}{kind}"
        tool = _UserTool(visit, kind, parameters, earlier[name])
        yield ResolvedTool(declare(name, description, parameters), tool.call)


@dataclass(frozen=True, slots=True)
class _UserTool:
    visit: Visit[TurnNode]
    kind: AskKind
    parameters: dict[str, Param]
    earlier: int  # calls of the function in earlier turns

    def call(self, invocation: ToolInvocation) -> Completed | Waits:
        arguments = _with_list(invocation.arguments)
        problems = misfits(self.parameters, arguments)
        if problems:
            return Completed({"tool_call_error": f"{invocation.name}: {'; '.join(problems)}"})
        question, options = arguments["question"], tuple(arguments.get("options") or ())
        if "options" not in self.parameters:
            options = ()
        if is_too_large(question, options):
            return Completed({"tool_call_error": f"{invocation.name}: {TOO_LARGE}"})
        if invocation.arrived is not None:
            return Completed(self._result(question, options, invocation.arrived))
        ahead = self._ahead(invocation)
        if ahead is not None:
            return Completed(answered(self.kind, options, ahead))
        if self.visit.context.is_unattended:
            return Completed(no_person(self.kind, question, options))
        shown = ("yes", "no") if self.kind == "confirm" else options
        return Waits(Asked(self.kind, question, shown, allowed_s=asking_limit_s(self.visit)))

    def _result(self, question: str, options: Sequence[str], arrived: str) -> dict[str, Any]:
        if not arrived and self.visit.context.headless:
            return no_person(self.kind, question, options)
        if not arrived:
            return timed_out(self.visit.node.config.escalation_timeout)
        return answered(self.kind, options, json.loads(arrived)["answer"])

    def _ahead(self, invocation: ToolInvocation) -> str | None:
        """Return an answer submitted in advance: the n-th call of a function takes the n-th."""
        given = self.visit.context.answers.get(invocation.name, ())
        place = self.earlier + invocation.place
        return given[place - 1] if place <= len(given) else None


def asking_limit_s(visit: Visit[TurnNode]) -> float | None:
    """Return how long the run's questions stay open; None: forever, for a root."""
    return visit.node.config.escalation_timeout if visit.context.depth else None


def _with_list(arguments: Arguments) -> Arguments:
    """Parse `options` if they are a string that contains a list."""
    options = arguments.get("options")
    if not isinstance(options, str):
        return arguments
    try:
        return {**arguments, "options": decode(options)}
    except ValueError:
        return arguments
