"""Agent variables: their names, and the values a run gets."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sleipnir.graphs.errors import MissingVariables
from sleipnir.graphs.normal_agent import NormalAgent
from sleipnir.graphs.schema import Graph
from sleipnir.graphs.state import encode

VARIABLE_PREFIX = "LLM_AGENT_VAR_"  # of the environment variables that hold their values

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def is_variable_name(name: str) -> bool:
    """Whether a variable may be called that."""
    return _NAME.fullmatch(name) is not None


def environment_name(name: str) -> str:
    """The environment variable in which scripts and tools find the value."""
    return VARIABLE_PREFIX + name.upper().replace("-", "_")


def resolve_variables(agent: Graph | NormalAgent, given: Mapping[str, str]) -> dict[str, str]:
    """The value of every declared variable; what else is in `given` is left out.

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
    """The values of those variables that have one anyway."""
    defaults = ((variable.name, variable.default) for variable in agent.variables)
    return {
        name: default if isinstance(default, str) else encode(default)
        for name, default in defaults
        if default is not None
    }
