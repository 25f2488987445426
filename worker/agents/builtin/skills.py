"""Functions to list, load and unload skills. Errors never end a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from sleipnir.graphs.skills import UnusableSkill
from sleipnir.worker.agents.builtin.declaring import Arguments, Param, builtin
from sleipnir.worker.conversation.tool_set import ResolvedTool


class Loading(Protocol):
    """The skills of one conversation."""

    def shown(self) -> list[dict[str, Any]]: ...

    def load(self, name: str) -> list[str]: ...

    def unload(self, name: str) -> None: ...


def skill_tools(skills: Loading) -> Iterator[ResolvedTool]:
    """Yield the functions; what they change takes effect with the turn's commit."""

    def load(arguments: Arguments) -> dict[str, Any]:
        name = arguments["name"]
        return _tried(name, lambda: skills.load(name))

    def unload(arguments: Arguments) -> dict[str, Any]:
        name = arguments["name"]
        return _tried(name, lambda: skills.unload(name))

    name = {"name": Param("string", "The name of the skill.")}
    yield builtin(
        "skill__list",
        "List the skills that can be loaded.",
        {},
        lambda _: {"skills": skills.shown()},
    )
    yield builtin(
        "skill__load",
        "Load a skill: from your next turn on you have its instructions and its tools.",
        name,
        load,
        in_commit=True,
    )
    yield builtin(
        "skill__unload",
        "Unload a skill whose instructions and tools are no longer needed.",
        name,
        unload,
        in_commit=True,
    )


def _tried(name: str, act: Callable[[], list[str] | None]) -> dict[str, Any]:
    try:
        tools = act()
    except UnusableSkill as error:
        return {"error": f"skill '{name}': {error}"}
    done = {"status": "ok", "name": name}
    return done if tools is None else {**done, "tools": tools}
