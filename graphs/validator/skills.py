"""Rules about skills of graphs and normal agents: E613, W606, W011."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sleipnir.graphs.document.finding import Finding, listing
from sleipnir.graphs.schema import LlmNode, SkillFields
from sleipnir.graphs.skills import UnusableSkill, choice_of, choices_in, functions_of, read_skill
from sleipnir.graphs.validator.context import Context, near_names, place

_SWITCH = "skills_enabled"
_OTHERS = tuple(field for field in SkillFields.fields_in_files() if field != _SWITCH)
_Path = tuple[str, ...]


def skills_of_nodes_are_the_graphs(context: Context) -> Iterator[Finding]:
    """E613: a node can narrow down the graph's skills, but not add to them."""
    enabled = context.graph.enabled_skills
    if enabled is None:
        return
    for path, fields in _places(context):
        for index, name in enumerate(fields.enabled_skills or () if path else ()):
            if name not in enabled:
                message = f"node '{path[1]}': skill '{name}' is not in the graph's 'enabled_skills'"
                yield context.finding("E613", message, *path, "enabled_skills", index)


def skills_can_be_loaded(context: Context) -> Iterator[Finding]:
    """W606: a skill does not exist or is unusable; the run goes on without it."""
    library = context.resources.skills()
    choices = list(choices_in(context.graph))
    unusable = dict(_unusable(context, list(library.chosen(choices))))
    named: set[str] = set()
    for path, fields in _places(context) if choices else ():
        names = fields.enabled_skills or ()
        missing = [name for name in names if library.find(name) is None]
        hints = near_names(missing, library.names())
        for index, name in enumerate(names):
            where: tuple[str | int, ...] = (*path, "enabled_skills", index)
            if name in missing:
                searched = listing([str(directory) for directory in library.directories])
                message = f"skill '{name}' is not in {searched or 'any directory'}"
                yield context.finding("W606", message, *where, hint=hints.get(name))
            elif name in unusable and name not in named:
                named.add(name)
                yield context.finding("W606", unusable[name], *where)
    for name in sorted(unusable.keys() - named):
        yield context.finding("W606", unusable[name], _SWITCH)


def skill_fields_have_effect(context: Context) -> Iterator[Finding]:
    """W011: fields about skills where no model may load any."""
    used = any(True for _ in choices_in(context.graph))
    for path, fields in _places(context):
        is_off = choice_of(fields, context.graph) is None if path else not used
        for field in _OTHERS if is_off else ():
            if context.is_written(*path, field) and getattr(fields, field) != []:
                subject = place(*path, field, root=context.agent.document.file.stem)
                message = f"{subject} has no effect here"
                found = context.finding("W011", message, *path, field, hint=f"see '{_SWITCH}'")
                yield replace(found, subject=subject)


def _places(context: Context) -> Iterator[tuple[_Path, SkillFields]]:
    """Yield where skills are configured: at the top of the file, and on its llm nodes."""
    if context.agent.normal is not None:
        yield (), context.agent.normal
        return
    yield (), context.graph
    for node_id, node in context.graph.nodes_of(LlmNode):
        yield ("nodes", node_id), node


def _unusable(context: Context, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield existing skills that cannot be loaded, and why."""
    library, tools = context.resources.skills(), context.resources.library()
    for name in names:
        file = library.find(name)
        assert file is not None, "it was found before"
        try:
            skill = read_skill(file)
            functions_of(skill, tools)
        except UnusableSkill as error:
            yield name, f"skill '{name}' ({file}) cannot be loaded: {error}"
            continue
        config = context.resources.mcp
        known = {*config.servers, *config.aliases, "all"}
        if missing := [server for server in skill.servers if server not in known]:
            wrong = config.wrong.get(missing[0])
            why = f", which mcp.json describes wrongly: {wrong[0].message}" if wrong else ""
            yield name, f"skill '{name}' ({file}) needs the MCP server '{missing[0]}'{why}"
