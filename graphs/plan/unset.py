"""Finds ways through a graph on which a key is read that nothing on them has set: W028."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping

from sleipnir.graphs.dataflow import FieldPath, expressions, state_reads
from sleipnir.graphs.plan.flow import Flow, FlowWay, flow_of
from sleipnir.graphs.schema import Graph, Node, ScriptNode
from sleipnir.records import dataclass

_HAS = re.compile(r"\bhas\(\s*([A-Za-z0-9_]+)")


@dataclass(frozen=True, slots=True)
class UnsetRead:
    """A read of a key, and the shortest way to it on which nothing sets that."""

    node_id: str
    key: str
    field: FieldPath
    way: tuple[str, ...]  # from the first node to the one that reads


def unset_reads(graph: Graph, seeded: Collection[str]) -> Iterator[UnsetRead]:
    """Yield the reads that fail a run on some way, of keys that other ways set.

    A way through a script counts for none, as that may set anything; nor does one through a
    condition that asks for the key by `has`, or past a branch that sets it side by side.

    Args:
        seeded: keys that every run has from the beginning.
    """
    flow = flow_of(graph)
    writers: dict[str, set[str]] = {}
    for node_id, node in graph.nodes.items():
        for key in node.written_keys():
            writers.setdefault(key, set()).add(node_id)
    scripts = {node_id for node_id, _ in graph.nodes_of(ScriptNode)}
    for node_id in flow.ways:
        for key, field in _strict_reads(graph.nodes[node_id]).items():
            if key in seeded or not writers.get(key):  # W016 tells of what nothing sets
                continue
            way = _way_to(node_id, key, flow, writers[key] | scripts)
            if way is not None:
                yield UnsetRead(node_id, key, field, way)


def _strict_reads(node: Node) -> Mapping[str, FieldPath]:
    """Return the keys whose absence fails a node, at their first mention."""
    asked = {name for _, text in expressions(node) for name in _HAS.findall(text)}
    of_expressions = {field for field, _ in expressions(node)}
    found: dict[str, FieldPath] = {}
    replied = node.required_keys()  # before `next` is read
    for read in state_reads(node):
        if read.field[0] == "next" and read.key in replied:
            continue
        if (read.strict or read.field in of_expressions) and read.key not in asked:
            found.setdefault(read.key, read.field)
    return found


def _way_to(target: str, key: str, flow: Flow, setting: Collection[str]) -> tuple[str, ...] | None:
    came_from: dict[str, str | None] = {flow.start: None}
    waiting = deque([flow.start])
    while waiting:
        node_id = waiting.popleft()
        if node_id == target:
            return _walked(node_id, came_from)
        if node_id in setting:
            continue
        for way in flow.ways[node_id]:
            if key in _HAS.findall(way.condition) or _is_set_beside(way, flow, setting):
                continue
            for each in way.targets:
                if each not in came_from:
                    came_from[each] = node_id
                    waiting.append(each)
    return None


def _walked(node_id: str, came_from: Mapping[str, str | None]) -> tuple[str, ...]:
    walked = [node_id]
    while (before := came_from[walked[-1]]) is not None:
        walked.append(before)
    return tuple(reversed(walked))


def _is_set_beside(way: FlowWay, flow: Flow, setting: Collection[str]) -> bool:
    """Return whether one of several branches may set the key while others run."""
    if len(way.targets) < 2:
        return False
    seen, waiting = set(way.targets), list(way.targets)
    while waiting:
        node_id = waiting.pop()
        if node_id in setting:
            return True
        for further in flow.ways[node_id]:
            new = set(further.targets) - seen
            seen |= new
            waiting += new
    return False
