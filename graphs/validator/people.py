"""Rules about asking people: E105, E214, W003, W014."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.input_condition import parse_validation
from sleipnir.graphs.schema import ApprovalNode, InputNode
from sleipnir.graphs.validator.context import Context
from sleipnir.graphs.validator.routes import repeated


def options_match_routes(context: Context) -> Iterator[Finding]:
    """E105 and W003: options and routes must match; W014: repeated options."""
    for node_id, node in context.graph.nodes_of(ApprovalNode):
        path = ("nodes", node_id, "options")
        yield from repeated(context, node.options, path)
        for option in dict.fromkeys(node.options):
            if option not in node.routes:
                message = f"approval '{node_id}': option '{option}' has no route"
                yield context.finding("E105", message, *path, node.options.index(option))
        for key in node.routes.keys() - set(node.options):
            message = f"approval '{node_id}': route '{key}' matches no option"
            yield context.finding("W003", message, "nodes", node_id, "routes", key)


def conditions_are_readable(context: Context) -> Iterator[Finding]:
    """E214: an input's `validation` can only limit the length."""
    for node_id, node in context.graph.nodes_of(InputNode):
        if node.validation is None:
            continue
        try:
            parse_validation(node.validation)
        except ValueError:
            message = (
                f"input '{node_id}': validation must be 'len(input) <op> <integer>',"
                f" got '{node.validation}'"
            )
            yield context.finding("E214", message, "nodes", node_id, "validation")
