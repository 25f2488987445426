"""Environment variables that change a normal agent, wherever its `config.yaml` comes from.

Their names begin with the agent's, in upper case and with `_` for `-`: `CODER_MODEL`.
`<AGENT>_VARIABLES` is read where the values of variables are collected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sleipnir.graphs.document.document import Document
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.normal_agent import NormalAgent
from sleipnir.graphs.state import decode

CONFIG_FILE = "CONFIG_FILE"  # replaces the directory's own file
_UNSET = "null"


def environment_prefix(agent: str) -> str:
    """Return the prefix of an agent's environment variables, including the underscore."""
    return agent.upper().replace("-", "_") + "_"


def given_overrides(agent: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an agent's overrides that are set and not empty, by name without the prefix."""
    prefix = environment_prefix(agent)
    found = ((name, environment.get(prefix + name, "")) for name in (CONFIG_FILE, *_READERS))
    return {name: text for name, text in found if text}


def overridden(
    normal: NormalAgent, agent: str, overrides: Mapping[str, str], document: Document
) -> tuple[NormalAgent, list[Finding]]:
    """Apply what `given_overrides` returned; E610 for each value that is invalid.

    Args:
        document: the file whose fields are overridden.
    """
    changes: dict[str, Any] = {}
    findings = []
    for name, text in overrides.items():
        if name == CONFIG_FILE:
            continue
        try:
            changes[name.lower()] = _value(name, text)
        except ValueError as error:
            variable = environment_prefix(agent) + name
            message = f"{variable} in the environment: {error}"
            findings.append(document.finding("E610", message, name.lower()))
    return replace(normal, **changes), findings


def _value(name: str, text: str) -> Any:
    if text == _UNSET:
        return getattr(NormalAgent(), name.lower())
    return _READERS[name](text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a number, got '{text}'")
    return number


def _names(text: str) -> list[str]:
    try:
        found = decode(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"expected a JSON array of strings, got '{text}'")
    return found


_READERS: Mapping[str, Callable[[str], Any]] = {
    "MODEL": str,
    "TEMPERATURE": _number,
    "TOP_P": _number,
    "AGENT_SESSION": str,
    "INSTRUCTIONS": str,
    "GLOBAL_TOOLS": _names,
    "MCP_SERVERS": _names,
    "SPAWNABLE_AGENTS": _names,
}
