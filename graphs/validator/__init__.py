"""Static checks of an agent: what would fail, or is odd, found before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sleipnir.graphs.document.finding import Finding, in_order
from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.skills import with_default
from sleipnir.graphs.validator import (
    agents,
    conditions,
    files,
    forms,
    ignored,
    keys,
    knowledge,
    maps,
    models,
    parallel,
    people,
    reachability,
    routes,
    schemas,
    skills,
    templates,
    tool_files,
    tools,
)
from sleipnir.graphs.validator.context import Context
from sleipnir.graphs.validator.resources import Resources

__all__ = ["Resources", "validate"]

RULES: tuple[Callable[[Context], Iterator[Finding]], ...] = (
    routes.targets_exist,
    routes.next_lists_hold_targets,
    routes.queues_are_served,
    reachability.no_static_cycles,
    reachability.some_end_exists,
    conditions.routes_can_be_taken,
    conditions.some_route_applies,
    conditions.loops_end,
    conditions.writes_are_merged_first,
    conditions.names_are_those_of_the_state,
    reachability.next_is_given,
    reachability.nodes_are_reachable,
    people.options_match_routes,
    people.conditions_are_readable,
    files.scripts_can_run,
    files.programs_can_be_parsed,
    files.environment_files_can_be_read,
    knowledge.documents_stay_inside,
    knowledge.documents_can_be_read,
    knowledge.knowledge_is_there,
    knowledge.models_are_there,
    knowledge.knowledge_is_as_it_was_built,
    knowledge.knowledge_overwrites_no_agent_file,
    knowledge.retrieved_text_is_kept,
    agents.children_can_start,
    agents.inputs_leave_the_prompt_alone,
    tools.servers_are_configured,
    tools.filters_concern_listed_servers,
    tools.global_tools_exist,
    tools.tool_files_are_usable,
    tools.node_tools_exist,
    tools.used_tools_can_run,
    models.models_are_known,
    models.llm_nodes_have_a_model,
    models.models_take_what_is_attached,
    models.economy_with_tools_takes_rounds,
    skills.skills_of_nodes_are_the_graphs,
    skills.skills_can_be_loaded,
    skills.skill_fields_have_effect,
    schemas.output_schemas_are_schemas,
    keys.name_is_the_directory,
    keys.variables_can_be_told_apart,
    keys.the_prompt_is_not_seeded,
    keys.state_keys_can_be_read,
    forms.forms_ask_for_what_there_is,
    forms.forms_can_be_filled_in,
    parallel.ends_stand_alone,
    parallel.steps_are_not_too_wide,
    parallel.nobody_is_asked_in_parallel,
    parallel.parallel_scripts_declare_writes,
    parallel.parallel_writes_have_reducers,
    parallel.parallel_reads_are_independent,
    maps.branches_fit,
    maps.chains_hold_what_a_map_can_run,
    maps.items_go_one_way,
    maps.writes_of_chains_are_used,
    maps.windows_are_numbers,
    maps.keys_can_be_named,
    maps.branches_are_no_targets,
    templates.braces_are_references,
    templates.reads_have_a_source,
    ignored.next_has_effect,
    ignored.no_reserved_fields,
    ignored.efforts_reach_models_that_reason,
    ignored.agent_nodes_bring_no_tools,
    agents.agents_may_start,
    agents.spawnable_agents_exist,
)

# Those that also apply to what a `config.yaml` has.
RULES_OF_NORMAL: tuple[Callable[[Context], Iterator[Finding]], ...] = (
    files.programs_can_be_parsed,
    files.environment_files_can_be_read,
    tools.servers_are_configured,
    tools.filters_concern_listed_servers,
    tools.global_tools_exist,
    tools.tool_files_are_usable,
    keys.variables_can_be_told_apart,
    forms.forms_ask_for_what_there_is,
    forms.forms_can_be_filled_in,
    skills.skills_can_be_loaded,
    skills.skill_fields_have_effect,
    agents.spawnable_agents_exist,
)


# Of loading: what the file itself has wrong, and texts in other files. What these leave out of the
# graph, or put in its place, must not run.
_OF_FILES = ("E0", "E201", "E203", "E218", "E219")


def validate(agent: Agent, resources: Resources) -> tuple[Finding, ...]:
    """Return all findings about an agent, in file order, including those of loading.

    With `settings.validate_before_run: false` only errors of the files themselves are returned.
    For a normal agent, its variables, tools, skills, documents and models are checked.
    """
    agent = with_default(agent, resources.skills_enabled)
    graph = agent.graph
    if graph is None:
        return in_order([*agent.findings, *_findings_of_normal(agent, resources)])
    if not graph.settings.validate_before_run:
        return in_order(found for found in agent.findings if found.code.startswith(_OF_FILES))
    context = Context(agent, graph, resources)
    findings = [finding for rule in RULES for finding in rule(context)]
    return in_order([*agent.findings, *findings])


def _findings_of_normal(agent: Agent, resources: Resources) -> Iterator[Finding]:
    if agent.normal is None:
        return
    graph = agent.runnable
    assert graph is not None
    context = Context(agent, graph, resources)
    for rule in RULES_OF_NORMAL:
        yield from rule(context)
    toolbox = context.toolbox
    yield from tool_files.instructions_can_be_made(agent, toolbox)
    yield from tool_files.machine_has_what_tools_need(agent, toolbox.functions, resources)
    yield from knowledge.findings_of_normal(agent, resources)
    yield from models.models_of_normal(agent, resources)
    yield from models.normal_agents_can_call_functions(agent, resources)
