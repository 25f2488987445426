"""Rules about the tools of graph and normal agents: E209, E601 to E607, W603."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Literal

from sleipnir.graphs.document.finding import Finding, listing
from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.env_file import ENV_FILE, read_env_file
from sleipnir.graphs.tools.function import Function
from sleipnir.graphs.tools.reader import EXTENSIONS
from sleipnir.graphs.tools.toolbox import Toolbox
from sleipnir.graphs.validator.context import near_names
from sleipnir.graphs.validator.resources import Resources
from sleipnir.graphs.variables import VARIABLE_PREFIX, environment_name
from sleipnir.records import dataclass

# Programs that start the tools of a language; bash is available wherever workers run.
_INTERPRETERS = {"bash": "bash", "python": "python3", "typescript": "npx"}
_EVERYWHERE = ("bash", "python3")


def global_tools_exist(agent: Agent, toolbox: Toolbox) -> Iterator[Finding]:
    """E209, E607: entries of `global_tools` must be usable tool files, or aliases of some."""
    found = [toolbox.resolved(entry) for entry in agent.global_tools]
    unknown = (name for resolved in found for name in resolved.unknown)
    hints = near_names(unknown, toolbox.known_entries())
    for index, resolved in enumerate(found):
        for name in resolved.unknown:
            message, hint = f"unknown tool '{name}'", hints.get(name) or _kinds(name)
            yield agent.document.finding("E209", message, "global_tools", index, hint=hint)
        for name in resolved.hidden:
            message = f"tool '{name}' may not be used here: it is not in 'visible_tools'"
            yield agent.document.finding("E607", message, "global_tools", index)


def instructions_can_be_made(agent: Agent, toolbox: Toolbox) -> Iterator[Finding]:
    """E601: an agent with dynamic instructions needs the function that makes them."""
    wanted = agent.normal is not None and agent.normal.dynamic_instructions
    if wanted and toolbox.instructions is None and not toolbox.is_broken:
        message = "'dynamic_instructions' needs a function '_instructions' in the tools file"
        yield agent.document.finding("E601", message, "dynamic_instructions")


def machine_has_what_tools_need(
    agent: Agent, used: Iterable[Function], resources: Resources
) -> Iterator[Finding]:
    """W603: programs and variables of tools in use; another machine may have them."""
    if resources.find_program is None:
        return
    noted: set[tuple[PurePath, str]] = set()
    for need in needs_of(agent, used, resources):
        file = need.function.file
        if not need.is_there and (file, need.name) not in noted:
            noted.add((file, need.name))
            yield Finding("W603", need.message, file=str(file), line=need.function.line)


@dataclass(frozen=True, slots=True)
class Need:
    """A program or an environment variable that a function requires."""

    function: Function
    kind: Literal["program", "environment variable"]
    name: str
    is_there: bool

    @property
    def is_everywhere(self) -> bool:
        """Whether it is so common that its presence need not be mentioned."""
        return self.name in _EVERYWHERE

    @property
    def message(self) -> str:
        """Message for a machine that lacks it."""
        tool = self.function.file.name
        return f"{tool} needs the {self.kind} '{self.name}', which this machine lacks"


def needs_of(agent: Agent, used: Iterable[Function], resources: Resources) -> Iterator[Need]:
    """Yield what functions need on the machine, except what the engine gives every call."""
    variables = _variables(agent, used := list(used), resources)
    find = resources.find_program
    for function in used:
        for program in (_INTERPRETERS[function.language], *function.bash.programs):
            yield Need(function, "program", program, find is None or find(program) is not None)
        for variable in function.bash.variables:
            if variable.required and not _is_given(variable.name):
                is_there = variable.name in variables
                yield Need(function, "environment variable", variable.name, is_there)


def _is_given(variable: str) -> bool:
    """Return whether the engine sets the variable for each call, on any machine."""
    return variable.startswith(("LLM_", "SLEIPNIR_")) and not variable.startswith(VARIABLE_PREFIX)


def _variables(agent: Agent, used: Iterable[Function], resources: Resources) -> Mapping[str, str]:
    """Return what a tool may see: the environment, the agent's variables, the `.env` files."""
    directories = {agent.directory, *(function.file.parent for function in used)}
    directories.update(resources.tool_directories)
    described = agent.graph or agent.normal
    names = [variable.name for variable in described.variables] if described is not None else []
    found = {**resources.environment, **dict.fromkeys(map(environment_name, names), "")}
    for directory in directories:
        with suppress(OSError):  # reported by a rule of its own
            found |= read_env_file(directory / ENV_FILE)
    return found


def _kinds(name: str) -> str | None:
    """Return a hint if the extension is unknown."""
    suffix = PurePath(name).suffix
    is_other = suffix and suffix not in EXTENSIONS
    return f"tools are {listing(EXTENSIONS)} files" if is_other else None
