"""Rules about nodes that run in parallel: E107, E301 to E304, E307, W020.

Only the immediate targets of one list in `next` are checked; conflicts further on are found at run
time.
"""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.dataflow import (
    STATE_UPDATES,
    Read,
    chain_reads,
    state_reads,
)
from sleipnir.graphs.document.finding import Finding, listing
from sleipnir.graphs.edges import Edge
from sleipnir.graphs.schema import (
    EndNode,
    Graph,
    MapNode,
    ScriptNode,
)
from sleipnir.graphs.validator.context import Context


def ends_stand_alone(context: Context) -> Iterator[Finding]:
    """E107: several ends in parallel have no meaning; W020: one would end its siblings' run."""
    for group in context.fan_outs:
        ends = [edge for edge in group if isinstance(context.graph.nodes[edge.target], EndNode)]
        if len(ends) == 1:
            (edge,) = ends
            message = f"end node '{edge.target}' would cut off its parallel siblings"
            yield context.finding("W020", message, *edge.path, node=edge.target)
        elif ends:
            source = group[0].source
            names = listing([edge.target for edge in ends])
            message = f"node '{source}' fans out to several end nodes ({names}); join first"
            yield context.finding("E107", message, *group[0].list_path)


def steps_are_not_too_wide(context: Context) -> Iterator[Finding]:
    """E307: all nodes of a step are started at once."""
    for group in context.fan_outs:
        most = context.resources.max_branches
        if len(group) > most:
            source = group[0].source
            message = (
                f"node '{source}': {group[0].label!r} lists {len(group)} targets; at most {most}"
            )
            hint = "use a map, which takes any number of items"
            yield context.finding("E307", message, *group[0].list_path, hint=hint)


def nobody_is_asked_in_parallel(context: Context) -> Iterator[Finding]:
    """E304: a question would hold up the whole super-step."""
    for edge in _parallel_edges(context):
        node = context.graph.nodes[edge.target]
        if node.ASKS_PEOPLE:
            message = f"{node.type} '{edge.target}' cannot be a fan-out target; ask after the join"
            yield context.finding("E304", message, *edge.path, node=edge.target)


def parallel_scripts_declare_writes(context: Context) -> Iterator[Finding]:
    """E302: what a script writes is unknown unless it is declared."""
    for node_id in dict.fromkeys(edge.target for edge in _parallel_edges(context)):
        path = ("nodes", node_id, STATE_UPDATES)
        if isinstance(context.graph.nodes[node_id], ScriptNode) and not context.is_written(*path):
            message = (
                f"script '{node_id}' runs in parallel:"
                " declare its writes in state_updates ({} for none)"
            )
            hint = 'write `KEY: "{{KEY}}"` for each key that it prints'
            yield context.finding("E302", message, *path, hint=hint)


def parallel_writes_have_reducers(context: Context) -> Iterator[Finding]:
    """E301: two writers of one key need a reducer."""
    for group in context.fan_outs:
        for key, writers in _writers(context.graph, group).items():
            if len(writers) > 1 and not context.is_written("reducers", key):
                message = (
                    f"nodes {listing(writers)} write '{key}' in the same super-step;"
                    " declare a reducer for it or rename"
                )
                yield context.finding("E301", message, *group[0].list_path)


def parallel_reads_are_independent(context: Context) -> Iterator[Finding]:
    """E303: a node sees the state as it was before its siblings ran."""
    for group in context.fan_outs:
        writers = _writers(context.graph, group)
        for reader in (edge.target for edge in group):
            seen: set[str] = set()
            for node_id, read in _declared_reads(context.graph, reader):
                other = next((id_ for id_ in writers.get(read.key, ())[:2] if id_ != reader), None)
                if other is not None and read.key not in seen:
                    seen.add(read.key)
                    message = (
                        f"node '{reader}' reads '{read.key}',"
                        f" which its parallel sibling '{other}' writes"
                    )
                    path = ("nodes", node_id, *read.field)
                    yield context.finding("E303", message, *path, node=reader)


def _parallel_edges(context: Context) -> Iterator[Edge]:
    return (edge for group in context.fan_outs for edge in group)


def _writers(graph: Graph, group: list[Edge]) -> dict[str, list[str]]:
    """Return for each key the members of the group that declare to write it, in id order."""
    writers: dict[str, list[str]] = {}
    for node_id in sorted(edge.target for edge in group):
        for key in sorted(graph.nodes[node_id].written_keys()):
            writers.setdefault(key, []).append(node_id)
    return writers


def _declared_reads(graph: Graph, node_id: str) -> Iterator[tuple[str, Read]]:
    """Yield what the node's own templates read, and for a map what its chain reads."""
    node = graph.nodes[node_id]
    merged = node.schema_keys()
    for read in state_reads(node):
        if read.field[0] not in {STATE_UPDATES, "next"} or read.key not in merged:
            yield node_id, read
    if isinstance(node, MapNode):
        yield from chain_reads(graph, node)
