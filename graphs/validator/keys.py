"""Rules about names: E216, W005, W010, W013."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.dataflow import STATE_UPDATES
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.schema import MapNode
from sleipnir.graphs.template import is_identifier
from sleipnir.graphs.validator.context import Context
from sleipnir.graphs.variables import environment_name, is_variable_name


def name_is_the_directory(context: Context) -> Iterator[Finding]:
    """W013: agents are found by their directory's name."""
    name, directory = context.graph.name, context.agent.name
    if name and name != directory:
        message = f"name '{name}' differs from the directory '{directory}'"
        yield context.finding("W013", message, "name")


def variables_can_be_told_apart(context: Context) -> Iterator[Finding]:
    """E216: each variable needs an environment name of its own."""
    owners: dict[str, str] = {}
    for variable, path in context.variables():
        if not is_variable_name(variable.name):
            hint = f"'{variable.name}' must be letters, digits, _ and -, not first a digit or -"
            yield context.finding("E216", "bad variable name", *path, hint=hint)
            continue
        environment = environment_name(variable.name)
        if environment in owners:
            message = (
                f"variables '{owners[environment]}' and '{variable.name}'"
                f" share the environment name {environment}"
            )
            if owners[environment] == variable.name:
                message = f"variable '{variable.name}' is declared twice"
            yield context.finding("E216", message, *path)
        owners.setdefault(environment, variable.name)


def the_prompt_is_not_seeded(context: Context) -> Iterator[Finding]:
    """W005: the caller's text becomes the prompt."""
    if "initial_prompt" in context.graph.initial_state:
        message = "initial_state.initial_prompt is always overwritten"
        yield context.finding("W005", message, "initial_state", "initial_prompt")


def state_keys_can_be_read(context: Context) -> Iterator[Finding]:
    """W010: no template can read a key that is not an identifier."""
    for key, path in _state_keys(context):
        if not is_identifier(key):
            yield context.finding(
                "W010", f"state key '{key}' cannot be read by any template", *path
            )


def _state_keys(context: Context) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Yield the keys that are seeded or written, with their places; maps have their own rule.

    Keys that a child run is given are among them.
    """
    graph = context.graph
    for variable, path in context.variables():
        if is_variable_name(variable.name) and not variable.secret:
            yield variable.name, path
    for key in graph.initial_state:
        yield key, ("initial_state", key)
    for node_id, node in graph.nodes.items():
        if isinstance(node, MapNode):
            continue
        for field in node.STRICT_EACH:
            for key in getattr(node, field) or ():
                yield key, ("nodes", node_id, field, key)
        for key in node.state_updates or ():
            yield key, ("nodes", node_id, STATE_UPDATES, key)
        for key in node.schema_keys():
            yield key, ("nodes", node_id, "output_schema", "properties", key)
