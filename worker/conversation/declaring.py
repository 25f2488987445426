"""Declares the engine's own functions: their names, descriptions and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from sleipnir.graphs.state import decode
from sleipnir.graphs.tools.function import declaration_of
from sleipnir.records import dataclass

Arguments: TypeAlias = Mapping[str, Any]

_OF_STRINGS: Mapping[str, dict[str, Any]] = {
    "array": {"items": {"type": "string"}},
    "object": {"additionalProperties": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: a string, an integer, a list of strings, or an object of strings."""

    kind: Literal["string", "integer", "array", "object"]
    description: str
    required: bool = True
    numbers: bool = False  # whole numbers are accepted too, where texts are declared
    encoded: bool = False  # a list may be given as a string that contains it as JSON
    # Refuses values before anything else of the call is looked at; raises `CallRefused`.
    check: Callable[[Any], None] | None = None

    def schema(self) -> dict[str, Any]:
        """Return the parameter's JSON Schema."""
        return {
            "type": self.kind,
            "description": self.description,
            **_OF_STRINGS.get(self.kind, {}),
        }

    def read(self, value: Any) -> Any:
        """Return a valid value; functions check integers and objects themselves.

        Raises:
            ValueError: it is not what the parameter takes; the text says what is.
        """
        if self.kind == "array":
            value = _decoded(value) if self.encoded else value
            if not (isinstance(value, list) and all(map(self._is_text, value))):
                raise ValueError("must be an array of strings")
        elif self.kind == "string" and not self._is_text(value):
            raise ValueError("must be a string")
        if self.check is not None:
            self.check(value)
        return value

    def _is_text(self, value: Any) -> bool:
        return isinstance(value, str) or (self.numbers and type(value) is int)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a model is told of a function, and what its arguments must be."""

    name: str
    description: str
    parameters: Mapping[str, Param]

    def for_models(self) -> dict[str, Any]:
        """Return the declaration in the form that chat models take."""
        properties = {key: parameter.schema() for key, parameter in self.parameters.items()}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        required = [key for key, parameter in self.parameters.items() if parameter.required]
        return declaration_of(
            self.name, self.description, schema | ({"required": required} if required else {})
        )

    def read(self, arguments: Arguments) -> Arguments:
        """Return valid arguments, without unknown ones.

        Raises:
            ValueError: what is wrong with them.
            CallRefused: the check of a parameter refuses the call.
        """
        found, problems = dict[str, Any](), []
        for key, parameter in self.parameters.items():
            if arguments.get(key) is None:
                if parameter.required:
                    problems.append(f"missing required argument '{key}'")
                continue
            try:
                found[key] = parameter.read(arguments[key])
            except ValueError as error:
                problems.append(f"'{key}' {error}")
        if problems:
            raise ValueError("; ".join(problems))
        return found


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return decode(value)
    except ValueError:
        return value
