"""Functions to list, load and unload skills; what they change counts from the next turn on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.skills import UnusableSkill
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.worker.conversation.declaring import Arguments, Declared, Param
from sleipnir.worker.conversation.function_kinds import CallRefused, PureFunction

if TYPE_CHECKING:
    from sleipnir.worker.agents.skills import Skills

_NAME = {"name": Param("string", "The name of the skill.")}
_LIST = Declared(
    "skill__list",
    "List the available skills: name, description, tools, and whether each is loaded.",
    {},
)
_LOAD = Declared(
    "skill__load",
    "Load a skill. Its instructions and tools are available from your next turn on.",
    _NAME,
)
_UNLOAD = Declared("skill__unload", "Unload a skill that you no longer need.", _NAME)


def skill_tools(skills: Skills) -> Iterator[PureFunction]:
    """Yield the functions."""

    def show(notebook: Notebook, _: Arguments) -> tuple[Notebook, dict[str, Any]]:
        return notebook, {"skills": skills.shown(notebook.skills)}

    yield PureFunction(_LIST, show)
    yield _changing(_LOAD, skills.load)
    yield _changing(_UNLOAD, skills.unload)


def _changing(
    declared: Declared,
    act: Callable[[tuple[str, ...], str], tuple[tuple[str, ...], dict[str, Any]]],
) -> PureFunction:
    def compute(notebook: Notebook, arguments: Arguments) -> tuple[Notebook, dict[str, Any]]:
        name = arguments["name"]
        try:
            loaded, more = act(notebook.skills, name)
        except UnusableSkill as error:
            raise CallRefused({"error": f"skill '{name}': {error}"}) from None
        return replace(notebook, skills=loaded), {"status": "ok", "name": name, **more}

    return PureFunction(declared, compute)
