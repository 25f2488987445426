"""Declares the engine's own functions: their parameters, checked, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from sleipnir.graphs.tools.function import declaration_of
from sleipnir.records import dataclass
from sleipnir.worker.conversation.tool_set import CallOutcome, ResolvedTool, ToolInvocation
from sleipnir.worker.tools.call import Completed

Arguments: TypeAlias = Mapping[str, Any]

_TYPES: Mapping[str, type] = {"string": str, "array": list}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: a string, an integer, or a list of strings."""

    kind: Literal["string", "integer", "array"]
    description: str
    required: bool = True
    numbers: bool = False  # whole numbers are accepted too, where texts are declared

    def schema(self) -> dict[str, Any]:
        items = {"items": {"type": "string"}} if self.kind == "array" else {}
        return {"type": self.kind, "description": self.description, **items}

    def problem(self, value: Any) -> str | None:
        """Return why a value is invalid; functions check integers themselves."""
        wanted = _TYPES.get(self.kind)
        if wanted is list and not (isinstance(value, list) and all(map(self._is_text, value))):
            return "must be an array of strings"
        if wanted is str and not self._is_text(value):
            return "must be a string"
        return None

    def _is_text(self, value: Any) -> bool:
        return isinstance(value, str) or (self.numbers and type(value) is int)


def builtin(
    name: str,
    description: str,
    parameters: Mapping[str, Param],
    act: Callable[[Arguments], Any],
    *,
    in_commit: bool = False,
) -> ResolvedTool:
    """Return a function that applies `act` to valid arguments and returns at once."""

    def call(invocation: ToolInvocation) -> Completed:
        return Completed(act(invocation.arguments))

    tool = checked(name, description, parameters, call, in_commit=in_commit)
    return replace(tool, at_once=True)


def checked(
    name: str,
    description: str,
    parameters: Mapping[str, Param],
    act: Callable[[ToolInvocation], CallOutcome],
    *,
    in_commit: bool = False,
) -> ResolvedTool:
    """Return a function that calls `act` if its arguments are valid."""

    def call(invocation: ToolInvocation) -> CallOutcome:
        problems = misfits(parameters, invocation.arguments)
        if problems:
            return Completed({"tool_call_error": f"{name}: {'; '.join(problems)}"})
        return act(invocation)

    return ResolvedTool(declare(name, description, parameters), call, in_commit=in_commit)


def declare(name: str, description: str, parameters: Mapping[str, Param]) -> dict[str, Any]:
    """Return a function's declaration for chat models."""
    properties = {key: parameter.schema() for key, parameter in parameters.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [key for key, parameter in parameters.items() if parameter.required]
    if required:
        schema["required"] = required
    return declaration_of(name, description, schema)


def misfits(parameters: Mapping[str, Param], arguments: Arguments) -> list[str]:
    """Return what is wrong with arguments; unknown ones are ignored."""
    found = []
    for key, parameter in parameters.items():
        if arguments.get(key) is None:
            if parameter.required:
                found.append(f"missing required argument '{key}'")
        elif problem := parameter.problem(arguments[key]):
            found.append(f"'{key}' {problem}")
    return found
