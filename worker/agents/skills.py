"""The skills of one conversation: which may be loaded, which are, and what they provide.

Loading takes effect in the next turn: messages and functions of the current one do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.mcp.config import function_suffix
from sleipnir.graphs.skills import SkillChoice, UnusableSkill
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.rendering import render
from sleipnir.scheduler.runs.submit import AGENTS_FACT
from sleipnir.worker.agents.builtin.skills import skill_tools
from sleipnir.worker.conversation.tool_set import Toolset

if TYPE_CHECKING:
    from sleipnir.graphs.mcp.filters import Layer
    from sleipnir.graphs.skills import Skill
    from sleipnir.graphs.tools.function import Function
    from sleipnir.worker.conversation.function_kinds import OfferedFunction, PureFunction
    from sleipnir.worker.llm.client import Message
    from sleipnir.worker.visit.context import Visit


class Skills:
    """The skills that one model may load; none, at no cost, if skills are not enabled.

    Args:
        choice: None: skills are not enabled.
    """

    def __init__(self, visit: Visit[Any], choice: SkillChoice | None) -> None:
        self._visit = visit
        self._choice = choice
        self._offered: Mapping[str, Any] = {}  # the model's other functions, by name

    def _loaded(self, notebook: Notebook) -> tuple[str, ...]:
        return () if self._choice is None else notebook.skills

    def tools(self) -> Iterable[PureFunction]:
        """Return the functions to list, load and unload skills."""
        return () if self._choice is None else skill_tools(self)

    def offered(self, toolset: Toolset, notebook: Notebook) -> Toolset:
        """Return all functions for the next turn, those of loaded skills last.

        Args:
            toolset: the model's other functions, including `tools`.
            notebook: has the names of the loaded skills.
        """
        self._offered = toolset.tools
        for skill, functions in self._usable(self._loaded(notebook)):
            toolset = toolset.with_tools(self._functions_of(skill, functions, toolset))
        return toolset.narrowed(list(self._layers(notebook)))

    def told(self, messages: list[Message], notebook: Notebook) -> list[Message]:
        """Return the conversation with the texts of loaded skills added to its prompt."""
        usable = self._usable(self._loaded(notebook))
        found = [skill.body for skill, _ in usable if skill.body]
        if not found:
            return messages
        facts = self._facts()
        bodies = [render(body, facts) for body in found]
        has_prompt = bool(messages) and messages[0]["role"] == "system"
        prompt = [messages[0]["content"]] if has_prompt else []
        system = {"role": "system", "content": "\n\n".join([*prompt, *bodies])}
        return [system, *messages[has_prompt:]]

    def _facts(self) -> dict[str, str]:
        """Return what skills may say about the submitting machine, by name."""
        facts = self._visit.context.facts
        known = {name: fact for name, fact in facts.items() if name != AGENTS_FACT}
        return {**known, "__cwd__": str(self._visit.workdir())}

    def answer_completed(self, notebook: Notebook) -> Notebook:
        """Return the notebook without the skills that are loaded for one answer only."""
        found = self._usable(self._loaded(notebook))
        kept = tuple(skill.name for skill, _ in found if not skill.auto_unload)
        return replace(notebook, skills=kept)

    # ---- called by the functions

    def shown(self, loaded: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return what the model is told about the skills that it can load, by name."""
        return [
            {
                "name": skill.name,
                "description": skill.description,
                "tools": list(skill.tools),
                "mcp_servers": list(skill.servers),
                "loaded": skill.name in loaded,
            }
            for skill, _ in self._usable(self._names())
        ]

    def load(self, loaded: tuple[str, ...], name: str) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return the names of loaded skills with this one, and the names of its functions.

        Raises:
            UnusableSkill: it must not or cannot be loaded.
        """
        self._require(name)
        skill, functions = self._visit.agent.skill(name)
        if name not in loaded:
            self._refuse_clashes(loaded, skill, functions)
            loaded = (*loaded, name)
        return loaded, {"tools": [function.name for function in functions]}

    def unload(self, loaded: tuple[str, ...], name: str) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return the names of loaded skills without this one.

        Raises:
            UnusableSkill: there is no such skill.
        """
        self._require(name)
        return tuple(each for each in loaded if each != name), {}

    def _layers(self, notebook: Notebook) -> Iterator[Layer]:
        """Yield the filters of loaded skills, for the servers that they bring."""
        config = self._visit.agent.servers
        for skill, _ in self._usable(self._loaded(notebook)):
            if skill.mcp_tools:
                layer = config.layer(f"skill '{skill.name}'", skill.mcp_tools)
                brought = config.resolve(skill.servers)
                kept = {name: layer.patterns[name] for name in brought if name in layer.patterns}
                yield replace(layer, patterns=kept)

    def _names(self) -> Iterable[str]:
        found = self._visit.agent.skills.names()
        return (name for name in found if self._choice is not None and self._choice.admits(name))

    def _require(self, name: str) -> None:
        if name not in self._names():
            raise UnusableSkill("there is no such skill here; skill__list shows those there are")

    def _usable(self, names: Iterable[str]) -> Iterator[tuple[Skill, tuple[Function, ...]]]:
        """Yield skills with their functions; an agent that was edited may lack some by now."""
        for name in names:
            try:
                found = self._visit.agent.skill(name)
            except UnusableSkill:
                continue
            yield found

    def _functions_of(
        self, skill: Skill, functions: Sequence[Function], toolset: Toolset
    ) -> Iterable[OfferedFunction]:
        new = [function for function in functions if function.name not in toolset.tools]
        found = self._visit.services.tools.resolve_more(
            self._visit, new, skill.servers, toolset.tools
        )
        for warning in found.warnings:
            self._visit.services.run_log.keep("tool", self._visit.mask(f"{skill.name}: {warning}"))
        return found.tools.values()

    def _refuse_clashes(
        self, loaded: tuple[str, ...], skill: Skill, functions: Iterable[Function]
    ) -> None:
        """Refuse two functions of one name, unless they are the same function."""
        agent, present = self._visit.agent, list(self._usable(loaded))
        others = [function for _, brought in present for function in brought]
        known = {function.name: function.file for function in (*agent.toolbox.functions, *others)}
        taken = {*self._offered, *(function.name for function in others)}
        for function in functions:
            if function.name in taken and known.get(function.name) != function.file:
                raise UnusableSkill(f"its function '{function.name}' is there already")
        entries = [
            *agent.graph.mcp_servers,
            *(server for other, _ in present for server in other.servers),
        ]
        servers = {function_suffix(name): name for name in agent.servers.resolve(entries)}
        for server in agent.servers.resolve(skill.servers):
            if servers.get(function_suffix(server), server) != server:
                clash = servers[function_suffix(server)]
                raise UnusableSkill(f"its MCP server '{server}' clashes with '{clash}'")
