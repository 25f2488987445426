"""Checks for environment variables that agents' programs read, but will not get."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.document.loader import Agent, load_agent
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.env_file import ENV_FILE, read_env_file
from sleipnir.graphs.environment_reads import variables_read
from sleipnir.graphs.errors import GraphError
from sleipnir.graphs.files import MIB, inside, read_bytes
from sleipnir.graphs.schema import ScriptNode
from sleipnir.graphs.tools.library import ToolLibrary
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS
from sleipnir.graphs.tools.toolbox import Toolbox
from sleipnir.scheduler.client.preparation import resources_of
from sleipnir.scheduler.config.program_environment import NEVER_PASSED_ON, is_passed_on
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.doctor.check import Check

# Variables that the engine sets itself, or never passes on.
_OURS = ("LLM_", "GRAPH_STATE", "AUTO_CONFIRM", "NO_COLOR", "PYTHONPATH", *NEVER_PASSED_ON)


def agent_checks(settings: Settings, search: AgentSearch) -> Iterator[Check]:
    """Yield a check for each agent whose programs do not get variables that are set here."""
    library = resources_of(settings, search).library()
    for directory in search.names().values():
        try:
            agent = load_agent(directory)
        except (GraphError, OSError):  # `validate` says why
            continue
        dropped = variables_not_passed_on(agent, library, settings)
        if any(name in os.environ for name in dropped):
            yield _check(agent.name, dropped)


def variables_not_passed_on(
    agent: Agent, library: ToolLibrary, settings: Settings
) -> Mapping[str, str]:
    """Return variables that an agent's programs read but do not get, each with a program."""
    programs = dict(_programs(agent, library))
    found: dict[str, str] = {}
    for file, given in programs.items():
        with suppress(OSError):
            text = read_bytes(file, MIB).decode(errors="replace")
            for name in sorted(variables_read(text, file.suffix.lower())):
                allowed = name in given or is_passed_on(name, settings.tool_env)
                if not allowed and not name.startswith(_OURS):
                    found.setdefault(name, file.name)
    return found


def _programs(agent: Agent, library: ToolLibrary) -> Iterator[tuple[Path, set[str]]]:
    """Yield an agent's scripts and tool files, each with the additional variables it gets."""
    own = _names_in(agent.directory)
    if agent.graph is not None:
        for _, node in agent.graph.nodes_of(ScriptNode):
            file = inside(agent.directory, node.script)
            if file is not None:
                yield file, own
    for function in Toolbox(agent.global_tools, library, agent.directory).functions:
        file = Path(function.file)
        if file.parent == SHIPPED_TOOLS:  # they declare what they need
            continue
        declared = {variable.name for variable in function.bash.variables}
        yield file, own | declared | _names_in(file.parent)


def _names_in(directory: Path) -> set[str]:
    try:
        return set(read_env_file(directory / ENV_FILE))
    except OSError:  # `validate` says why
        return set()


def _check(agent: str, dropped: Mapping[str, str]) -> Check:
    is_set = {name for name in dropped if name in os.environ}
    told = [
        f"{name} ({'set here, ' if name in is_set else ''}read by {program})"
        for name, program in sorted(dropped.items(), key=lambda pair: pair[0] not in is_set)
    ]
    names = listing(sorted(is_set))
    return Check(
        f"environment of {agent}",
        "warning",
        f"not passed on to its programs: {listing(told)}",
        f"to pass them on: `tool_env: [{names}]` in config.yaml, or a value in the agent's .env",
    )
