"""Functions to list, load and unload skills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from sleipnir.graphs.skills import UnusableSkill
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.worker.conversation.declaring import Arguments, Declared, Param
from sleipnir.worker.conversation.function_kinds import CallRefused, PureFunction

_NAME = {"name": Param("string", "The name of the skill.")}


class Loading(Protocol):
    """The skills of one conversation; `loaded` are the names of those that are loaded."""

    def shown(self, loaded: tuple[str, ...]) -> list[dict[str, Any]]: ...

    def load(self, loaded: tuple[str, ...], name: str) -> tuple[tuple[str, ...], list[str]]: ...

    def unload(self, loaded: tuple[str, ...], name: str) -> tuple[str, ...]: ...


def skill_tools(skills: Loading) -> Iterator[PureFunction]:
    """Yield the functions; what they change takes effect with the turn's commit."""

    def show(notebook: Notebook, _: Arguments) -> tuple[Notebook, dict[str, Any]]:
        return notebook, {"skills": skills.shown(notebook.skills)}

    def load(notebook: Notebook, arguments: Arguments) -> tuple[Notebook, dict[str, Any]]:
        name = arguments["name"]
        try:
            loaded, tools = skills.load(notebook.skills, name)
        except UnusableSkill as error:
            raise _unusable(name, error) from None
        return replace(notebook, skills=loaded), {"status": "ok", "name": name, "tools": tools}

    def unload(notebook: Notebook, arguments: Arguments) -> tuple[Notebook, dict[str, Any]]:
        name = arguments["name"]
        try:
            loaded = skills.unload(notebook.skills, name)
        except UnusableSkill as error:
            raise _unusable(name, error) from None
        return replace(notebook, skills=loaded), {"status": "ok", "name": name}

    yield PureFunction(Declared("skill__list", "List the skills that can be loaded.", {}), show)
    yield PureFunction(
        Declared(
            "skill__load",
            "Load a skill: from your next turn on you have its instructions and its tools.",
            _NAME,
        ),
        load,
    )
    yield PureFunction(
        Declared(
            "skill__unload",
            "Unload a skill whose instructions and tools are no longer needed.",
            _NAME,
        ),
        unload,
    )


def _unusable(name: str, error: UnusableSkill) -> CallRefused:
    return CallRefused({"error": f"skill '{name}': {error}"})
