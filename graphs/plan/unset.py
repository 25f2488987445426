"""Finds ways through a graph on which a key is read that nothing on them has set: W028."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping

from sleipnir.graphs.dataflow import FieldPath, expressions, state_reads
from sleipnir.graphs.edges import reverse_postorder
from sleipnir.graphs.plan.flow import FlowWay, flow_of
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
    keys = _Keys(graph)
    for node_id in keys.flow.ways:
        for key, field in _strict_reads(graph.nodes[node_id]).items():
            if key in seeded or key not in keys.bits:  # W016 tells of what nothing sets
                continue
            if keys.may_be_unset(node_id, key):
                yield UnsetRead(node_id, key, field, keys.way_to(node_id, key))


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


class _Keys:
    """Where which keys may be unset, of those that some node sets; each is a bit of an integer."""

    def __init__(self, graph: Graph) -> None:
        self.flow = flow_of(graph)
        written = {node_id: node.written_keys() for node_id, node in graph.nodes.items()}
        every = dict.fromkeys(key for keys in written.values() for key in keys)
        self.bits = {key: 1 << index for index, key in enumerate(every)}
        scripts = {node_id for node_id, _ in graph.nodes_of(ScriptNode)}
        self._sets = {
            node_id: -1 if node_id in scripts else self._all_of(written[node_id])
            for node_id in self.flow.ways
        }
        adjacency = {
            n: [t for way in ways for t in way.targets] for n, ways in self.flow.ways.items()
        }
        self._order = reverse_postorder(adjacency, self.flow.start)
        set_later = self._set_later(adjacency)
        # By node: where its ways lead, and the keys that are not missed on that way.
        self._ways = {
            node_id: [(way.targets, self._not_missed(way, set_later)) for way in ways]
            for node_id, ways in self.flow.ways.items()
        }
        self._unset = self._unset_before()

    def may_be_unset(self, node_id: str, key: str) -> bool:
        """Return whether a run may come to a node without a key."""
        return bool(self._unset.get(node_id, 0) & self.bits[key])

    def way_to(self, target: str, key: str) -> tuple[str, ...]:
        """Return the shortest way to a node on which nothing sets a key."""
        bit = self.bits[key]
        came_from: dict[str, str | None] = {self.flow.start: None}
        waiting = deque([self.flow.start])
        while target not in came_from:
            node_id = waiting.popleft()
            if self._sets[node_id] & bit:
                continue
            for targets, not_missed in self._ways[node_id]:
                for each in () if not_missed & bit else targets:
                    if each not in came_from:
                        came_from[each] = node_id
                        waiting.append(each)
        return _walked(target, came_from)

    def _all_of(self, keys: Iterable[str]) -> int:
        found = 0
        for key in keys:
            found |= self.bits.get(key, 0)
        return found

    def _not_missed(self, way: FlowWay, set_later: Mapping[str, int]) -> int:
        """Return the keys that a way's condition asks for, or one of several branches may set."""
        found = self._all_of(_HAS.findall(way.condition))
        for target in way.targets if len(way.targets) > 1 else ():
            found |= set_later[target]
        return found

    def _set_later(self, adjacency: Mapping[str, Iterable[str]]) -> Mapping[str, int]:
        """Return the keys that each node, or one that follows it, may set."""
        later = dict(self._sets)
        changed = True
        while changed:
            changed = False
            for node_id in reversed(self._order):
                found = later[node_id]
                for target in adjacency[node_id]:
                    found |= later[target]
                changed = changed or found != later[node_id]
                later[node_id] = found
        return later

    def _unset_before(self) -> Mapping[str, int]:
        """Return the keys that a run may lack when it comes to a node."""
        unset = dict.fromkeys(self._order, 0)
        unset[self.flow.start] = -1
        changed = True
        while changed:
            changed = False
            for node_id in self._order:
                after = unset[node_id] & ~self._sets[node_id]
                for targets, not_missed in self._ways[node_id]:
                    for target in targets:
                        found = unset[target] | after & ~not_missed
                        changed = changed or found != unset[target]
                        unset[target] = found
        return unset


def _walked(node_id: str, came_from: Mapping[str, str | None]) -> tuple[str, ...]:
    walked = [node_id]
    while (before := came_from[walked[-1]]) is not None:
        walked.append(before)
    return tuple(reversed(walked))
