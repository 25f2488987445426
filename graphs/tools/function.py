"""A function that a model may call, as its tool file declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sleipnir.records import dataclass

JsonSchema: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Choices:
    """The values a bash parameter may take."""

    values: tuple[str, ...] = ()
    # A shell function that prints them, one a line; None: they are `values`.
    function: str | None = None
    checked: bool = True  # False: only a suggestion


@dataclass(frozen=True, slots=True)
class BashParameter:
    """What one `@option`, `@flag` or `@arg` line says, beyond the schema made of it."""

    kind: Literal["option", "flag", "arg"]
    name: str  # the long name as written, else the short letter; without dashes in front
    key: str  # the property in the schema: `name` with `-` as `_`
    required: bool = False
    repeated: bool = False  # `*`, `+`, several notations; of a flag: it counts
    takes_rest: bool = False  # `~`
    separator: str | None = None  # `*,`: one string may hold several values
    default: str | None = None
    default_function: str | None = None  # a shell function that prints the default
    choices: Choices | None = None
    notations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BashVariable:
    """What one `@env` line says: a variable of the environment, never a parameter."""

    name: str
    required: bool = False
    default: str | None = None
    default_function: str | None = None
    choices: Choices | None = None


@dataclass(frozen=True, slots=True)
class BashDetails:
    """What a call of a bash function is checked against."""

    parameters: tuple[BashParameter, ...] = ()
    variables: tuple[BashVariable, ...] = ()
    programs: tuple[str, ...] = ()  # that must be on PATH
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of parameters


@dataclass(frozen=True, slots=True)
class Function:
    """One function of a tool file."""

    name: str  # what the model calls
    description: str
    # {"type": "object", "properties": {…}, "required": […]}; `required` is left out when empty.
    parameters: JsonSchema
    file: Path
    line: int  # where it is declared, from 1
    # The symbol to call: `main` or a shell function, `run` or a top-level function.
    entry: str
    own: bool  # of the agent's own tools file, as opposed to a global tool
    # Of Python and TypeScript tools it holds no parameters.
    bash: BashDetails = field(default_factory=BashDetails)

    @property
    def language(self) -> Literal["bash", "python", "typescript"]:
        return _LANGUAGES[self.file.suffix]

    def declaration(self) -> dict[str, Any]:
        """The function as chat models are told of it."""
        return declaration_of(self.name, self.description, self.parameters)


_LANGUAGES: Mapping[str, Literal["bash", "python", "typescript"]] = {
    ".sh": "bash",
    ".py": "python",
    ".ts": "typescript",
}


def declaration_of(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A function as chat models are told of it; `parameters` is a JSON Schema."""
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }
