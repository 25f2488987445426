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
    """The values that a bash parameter may take."""

    values: tuple[str, ...] = ()
    # A shell function that prints them, one per line; None: they are in `values`.
    function: str | None = None
    checked: bool = True  # False: only suggestions


@dataclass(frozen=True, slots=True)
class BashParameter:
    """What an `@option`, `@flag` or `@arg` line says beyond the schema made from it."""

    kind: Literal["option", "flag", "arg"]
    name: str  # long name as written, else the short letter; without leading dashes
    key: str  # property in the schema: `name` with `_` for `-`
    required: bool = False
    repeated: bool = False  # `*`, `+`, several notations; a flag counts
    takes_rest: bool = False  # `~`
    separator: str | None = None  # `*,`: one string may hold several values
    default: str | None = None
    default_function: str | None = None  # shell function that prints the default
    choices: Choices | None = None
    notations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BashVariable:
    """What an `@env` line says: an environment variable, never a parameter."""

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
    programs: tuple[str, ...] = ()  # required on the PATH
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of parameters


@dataclass(frozen=True, slots=True)
class Function:
    """One function of a tool file."""

    name: str  # what the model calls
    description: str
    # {"type": "object", "properties": {…}, "required": […]}; `required` is omitted if empty.
    parameters: JsonSchema
    file: Path
    line: int  # of its declaration, from 1
    # What to call: `main` or a shell function, `run` or a top-level function.
    entry: str
    own: bool  # from the agent's own tools file, not a global tool
    # Has no parameters for Python and TypeScript tools.
    bash: BashDetails = field(default_factory=BashDetails)

    @property
    def language(self) -> Literal["bash", "python", "typescript"]:
        return _LANGUAGES[self.file.suffix]

    def declaration(self) -> dict[str, Any]:
        """Return the function's declaration for chat models."""
        return declaration_of(self.name, self.description, self.parameters)


_LANGUAGES: Mapping[str, Literal["bash", "python", "typescript"]] = {
    ".sh": "bash",
    ".py": "python",
    ".ts": "typescript",
}


def declaration_of(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function's declaration for chat models; `parameters` is a JSON Schema."""
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }
