"""Rules about expressions in `next` and `values`: E109 to E111, W022 to W025."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from sleipnir.graphs import dataflow
from sleipnir.graphs.dataflow import FieldPath, conditions
from sleipnir.graphs.document.document import name_place
from sleipnir.graphs.document.finding import Finding, listing
from sleipnir.graphs.document.shape import near
from sleipnir.graphs.edges import loops
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.schema import (
    ApprovalNode,
    InputNode,
    MapNode,
    Node,
    ScriptNode,
    SetNode,
    Switch,
    distinct,
)
from sleipnir.graphs.state import encode
from sleipnir.graphs.validator.context import Context


def routes_can_be_taken(context: Context) -> Iterator[Finding]:
    """E109: a route behind one without a condition."""
    for node_id, node in context.graph.nodes.items():
        routes = node.conditional_next
        if not isinstance(routes, list):
            continue
        open_ended = [index for index, route in enumerate(routes, 1) if route.when is None]
        if open_ended and open_ended[0] < len(routes):
            number = open_ended[0]
            message = (
                f"node '{node_id}': route {number + 1} is never reached: "
                f"route {number} has no condition"
            )
            yield context.finding("E109", message, "nodes", node_id, "next", number)


def some_route_applies(context: Context) -> Iterator[Finding]:
    """W022: a run may find no route; E111: a case that the value cannot have."""
    for node_id, node in context.graph.nodes.items():
        way_on, path = node.conditional_next, ("nodes", node_id, "next")
        if node.IGNORES_NEXT:
            continue
        if isinstance(way_on, Switch):
            yield from _cases_fit(context, node_id, way_on)
        elif way_on is not None and way_on[-1].when is not None:
            message = f"node '{node_id}': no route may apply (R002)"
            yield context.finding("W022", message, *path)


def loops_end(context: Context) -> Iterator[Finding]:
    """E110: a loop without a way out; W023: one whose choices may never change."""
    endless = [component for component, _ in loops(context.unchosen)]
    nodes = context.graph.nodes
    for component, cycle in loops(context.adjacency):
        members = [nodes[node_id] for node_id in component]
        is_endless = any(other <= component for other in endless)  # E102
        if is_endless or any(isinstance(node, ScriptNode) for node in members):
            continue
        path = ("nodes", cycle[0], "next")
        shown = listing(cycle, " -> ")
        if not _is_left(context, component):
            yield context.finding("E110", f"loop {shown} has no way out", *path)
        elif not _may_change(members, component):
            cap = context.graph.settings.max_loop_iterations
            message = (
                f"loop {shown}: if its condition never changes, only the visit cap ({cap}) "
                "ends it (R004)"
            )
            yield context.finding("W023", message, *path)


def writes_are_merged_first(context: Context) -> Iterator[Finding]:
    """W024: an expression that sees the node's own write of a key with a reducer."""
    reduced = frozenset(context.graph.reducers)
    for node_id, node in context.graph.nodes.items():
        for field, text, written in _expressions(node):
            for key in sorted(parse(text).names & reduced & written):
                subject = _subject(node_id, field)
                message = (
                    f"{subject} reads '{key}': it sees the node's own write, not the merged value; "
                    "decide in the next node"
                )
                yield context.finding("W024", message, "nodes", node_id, *field)


def names_are_those_of_the_state(context: Context) -> Iterator[Finding]:
    """W025: a name that means something else in an expression than in the state."""
    for node_id, node in context.graph.nodes.items():
        for field, text, _ in _expressions(node):
            hidden = _hidden_names(node, field)
            for name in sorted(parse(text).names & hidden & context.known_keys):
                message = (
                    f"{_subject(node_id, field)}: '{name}' is not the state's key of that name"
                )
                hint = "rename the key of the state"
                yield context.finding("W025", message, "nodes", node_id, *field, hint=hint)


def _is_left(context: Context, component: set[str]) -> bool:
    """Return whether an edge leads out of a loop, other than after a failure."""
    return any(
        edge.source in component
        and edge.target not in component
        and not edge.is_branch
        and edge.field[0] != "fallback"
        for edge in context.edges
    )


def _may_change(members: Sequence[Node], component: set[str]) -> bool:
    """Return whether something in a loop counts, or decides anew."""
    if any(isinstance(node, ApprovalNode | InputNode) for node in members):
        return True
    writers = (node.written_keys() for node in members if isinstance(node, SetNode))
    counted = {"visit"}.union(*writers)
    for node in members:
        # `max` of a route that leads out of the loop would close the way out.
        limited = (way.to for way in node.ways_on() if way.most is not None)
        if any(not component.isdisjoint(distinct(to)) for to in limited):
            return True
        if any(parse(text).names & counted for _, text in conditions(node)):
            return True
    return False


def _expressions(node: Node) -> Iterator[tuple[FieldPath, str, frozenset[str]]]:
    """Yield each expression of a node with the keys that the node has written by then."""
    written: frozenset[str] = frozenset()
    for key, value in (node.values if isinstance(node, SetNode) else {}).items():
        if isinstance(value, str):
            yield ("values", key), value, written
        written |= {key}
    for field, text in dataflow.expressions(node):
        if field[0] != "values":
            yield field, text, written if field[0] == dataflow.CHECK else node.written_keys()


def _hidden_names(node: Node, field: FieldPath) -> AbstractSet[str]:
    """Return the names in an expression that are not those of the state."""
    match field[0]:
        case "values":
            return {"visit"}
        case dataflow.CHECK:
            return dataflow.NAMES_OF_CHECKS
        case _:
            return {"failed", "visit", *([node.SCOPED] if node.SCOPED else ())}


def _subject(node_id: str, field: FieldPath) -> str:
    where, name = name_place(("nodes", node_id, *field), "graph")
    return f"{where}.{name}"


def _cases_fit(context: Context, node_id: str, switch: Switch) -> Iterator[Finding]:
    path = ("nodes", node_id, "next")
    key = switch.switch.strip()
    values = _known_values(context, node_id, key)
    if values is None:
        if switch.default is None:
            message = f"node '{node_id}': no route may apply (R002)"
            yield context.finding("W022", message, *path)
        return
    for case in switch.cases:
        if case not in values or values[case] is None:
            message = f"node '{node_id}': case '{case}' is no value of '{key}'"
            hint = near(case, values)
            yield context.finding("E111", message, *path, "cases", case, hint=hint)
    missing = [text for text, value in values.items() if value is None or text not in switch.cases]
    if missing and switch.default is None:
        names = listing([f"'{text}'" for text in missing])
        message = f"node '{node_id}': no case for {names} of '{key}' (R002)"
        yield context.finding("W022", message, *path, "cases")


def _known_values(context: Context, node_id: str, key: str) -> dict[str, Any] | None:
    """Return the values that a key may have, by their texts; None if they are not known.

    They are if one `output_schema` lists them, and nothing else sets the key.
    """
    nodes = context.graph.nodes
    if key == "output" and nodes[node_id].SCOPED == "output":
        return _listed(getattr(nodes[node_id], "output_schema", None))
    writers = [node for node in nodes.values() if key in node.written_keys()]
    words = context.key_words
    graph = context.graph
    items = (each.item_name for _, each in graph.nodes_of(MapNode))
    others = {*graph.initial_state, *(each.name for each in graph.variables), *items}
    if len(writers) != 1 or key in others or words is None or key in words.all:
        return None
    if key not in writers[0].schema_keys() or key in (
        getattr(writers[0], "state_updates", None) or ()
    ):
        return None
    return _listed(getattr(writers[0], "output_schema", {})["properties"][key])


def _listed(schema: Any) -> dict[str, Any] | None:
    if not isinstance(schema, dict):
        return None
    values = [True, False] if schema.get("type") == "boolean" else schema.get("enum")
    if not isinstance(values, list):
        return None
    return {value if isinstance(value, str) else encode(value): value for value in values}
