"""Agent variables: their names, and their values in a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sleipnir.graphs.errors import MissingVariables
from sleipnir.graphs.state import encode

if TYPE_CHECKING:
    from sleipnir.graphs.normal_agent import NormalAgent
    from sleipnir.graphs.schema import Graph

VARIABLE_PREFIX = "LLM_AGENT_VAR_"  # of the environment variables that hold the values
# That of the variable by which an agent lets guarded tools run without a person's consent.
AUTO_CONFIRM = f"{VARIABLE_PREFIX}AUTO_CONFIRM"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def is_variable_name(name: str) -> bool:
    """Return whether a variable may have that name."""
    return _NAME.fullmatch(name) is not None


def environment_name(name: str) -> str:
    """Return the environment variable in which scripts and tools find the value."""
    return VARIABLE_PREFIX + name.upper().replace("-", "_")


def resolve_variables(agent: Graph | NormalAgent, given: Mapping[str, str]) -> dict[str, str]:
    """Return the value of every declared variable; other names in `given` are ignored.

    Raises:
        MissingVariables: naming all that are neither given nor have a default.
    """
    values: dict[str, str] = {}
    missing: list[str] = []
    for variable in agent.variables:
        if variable.name in given:
            values[variable.name] = given[variable.name]
        elif variable.default is None:
            missing.append(variable.name)
    if missing:
        raise MissingVariables(missing)
    return defaults_of(agent) | values


def defaults_of(agent: Graph | NormalAgent) -> dict[str, str]:
    """Return the defaults of those variables that have one."""
    defaults = ((variable.name, variable.default) for variable in agent.variables)
    return {
        name: default if isinstance(default, str) else encode(default)
        for name, default in defaults
        if default is not None
    }
