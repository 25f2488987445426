"""How often one run visits each node at least and at most, if it succeeds and no node fails.

A lower bound is never too large and an upper bound never too small. Upper ones are exact for
chains, choices, joins of branches of equal length, and single loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import TypeAlias

from sleipnir.graphs.edges import components
from sleipnir.graphs.plan.flow import Flow, FlowWay
from sleipnir.graphs.plan.interval import Interval
from sleipnir.records import dataclass

# Bit k: a walk of k steps leads there. None: walks of unlimited length do.
Lengths: TypeAlias = int | None


def visit_bounds(flow: Flow) -> dict[str, Interval]:
    """Return the bounds of the visits of each node of a flow, in its order."""
    certain = _certain(flow)
    most = _Most(flow).of_all()
    return {
        node: Interval(int(node in certain and most[node] > 0), most[node]) for node in flow.ways
    }


def _certain(flow: Flow) -> set[str]:
    """Return the nodes that no run can avoid until it ends.

    One bit for each node: `avoids` holds those that can be avoided for so many steps from here on,
    `ended` those that can be avoided until an end is reached within these steps. Branches go on
    independently of each other here, by which more can be avoided than in fact, never less.
    """
    order = list(flow.ways)
    everything = (1 << len(order)) - 1
    others = {node: everything & ~(1 << index) for index, node in enumerate(order)}
    avoids = dict(others)
    ended = {node: others[node] if node in flow.ends else 0 for node in order}
    avoidable = ended[flow.start]
    ways = {node: _ways_of(flow, node) for node in order}
    for _ in range(2 * len(order) + 1):
        ended = {
            node: others[node]
            & (everything if node in flow.ends else _any_ends(ways[node], ended, avoids))
            for node in order
        }
        avoids = {
            node: others[node]
            & (everything if node in flow.ends else _any_avoids(ways[node], avoids, everything))
            for node in order
        }
        avoidable |= ended[flow.start]
    return {node for index, node in enumerate(order) if not avoidable >> index & 1}


def _ways_of(flow: Flow, node: str) -> Iterable[FlowWay]:
    if node in flow.anywhere:
        return [FlowWay((target,)) for target in flow.ways]
    return flow.ways[node]


def _any_avoids(ways: Iterable[FlowWay], avoids: Mapping[str, int], everything: int) -> int:
    found = 0
    for way in ways:
        together = everything
        for target in way.targets:
            together &= avoids[target]
        found |= together
    return found


def _any_ends(ways: Iterable[FlowWay], ended: Mapping[str, int], avoids: Mapping[str, int]) -> int:
    found = 0
    for way in ways:
        for target in way.targets:
            together = ended[target]
            for sibling in way.targets:
                if sibling != target:
                    together &= avoids[sibling]
            found |= together
    return found


@dataclass(frozen=True, slots=True)
class _Loop:
    """A strongly connected part of a flow; a part of one node need not have a loop."""

    nodes: frozenset[str]
    has_loop: bool
    is_bounded: bool  # without the ways that have `max`, none of its nodes comes again
    order: tuple[str, ...]  # of its nodes without those ways: each before those it leads to
    has_one_token: bool  # none of its nodes leads to several side by side


class _Most:
    """The upper bounds of one flow."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._adjacency = {
            node: list(dict.fromkeys(t for way in ways for t in way.targets))
            for node, ways in flow.ways.items()
        }
        # Each part before those it leads to.
        self._parts = [self._part(frozenset(part)) for part in components(self._adjacency)]
        self._part_of = {node: part for part in self._parts for node in part.nodes}
        self._passes = {part: self._passes_of(part) for part in self._parts}
        self._towards: dict[str, _Towards] = {}
        self._sources: dict[str, list[str]] = {node: [] for node in flow.ways}
        for node, targets in self._adjacency.items():
            for target in targets:
                self._sources[target].append(node)

    def of_all(self) -> dict[str, int]:
        """Return the most visits of each node; 0 for nodes that no way leads to."""
        flow = self._flow
        reached = self._reached()
        if reached & flow.anywhere:
            return {node: 1 if node in flow.ends else flow.cap for node in flow.ways}
        most: dict[str, int] = dict.fromkeys(flow.ways, 0)
        for part in self._parts:
            for node in part.nodes & reached:
                bound = min(
                    flow.cap,
                    self._toward(node).visits(flow.start),
                    self._by_entries(part, node, most),
                )
                most[node] = min(int(bound), 1) if node in flow.ends else int(bound)
        return most

    def part(self, node: str) -> _Loop:
        """Return the part that a node is in."""
        return self._part_of[node]

    def ways(self, node: str) -> tuple[FlowWay, ...]:
        """Return a node's ways on."""
        return self._flow.ways[node]

    def is_cut(self, node: str, way: FlowWay, target: str) -> bool:
        """Return whether a way, as it is counted by itself, begins a new walk in its loop."""
        return way.most is not None and target in self._part_of[node].nodes

    def passes(self, part: _Loop) -> Mapping[str, int]:
        """Return how often, at most, ways with `max` lead to a node of their own loop."""
        return self._passes[part]

    def _toward(self, node: str) -> _Towards:
        if node not in self._towards:
            self._towards[node] = _Towards(self, node)
        return self._towards[node]

    def _passes_of(self, part: _Loop) -> Mapping[str, int]:
        passes: Counter[str] = Counter()
        for way in (way for node in part.nodes for way in self.ways(node)):
            for target in part.nodes.intersection(way.targets) if way.most else ():
                passes[target] += way.most or 0
        return passes

    @property
    def parts(self) -> list[_Loop]:
        """All parts, each before those it leads to."""
        return self._parts

    def _reached(self) -> set[str]:
        seen, waiting = {self._flow.start}, [self._flow.start]
        while waiting:
            for target in self._adjacency[waiting.pop()]:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    def _part(self, nodes: frozenset[str]) -> _Loop:
        within = {
            node: [
                target
                for way in self._flow.ways[node]
                for target in way.targets
                if target in nodes and way.most is None
            ]
            for node in self._flow.ways
            if node in nodes
        }
        order = [node for part in components(within) for node in part]
        has_loop = len(nodes) > 1 or any(n in self._adjacency[n] for n in nodes)
        is_bounded = len(list(components(within))) == len(nodes) and not any(
            node in targets for node, targets in within.items()
        )
        has_one_token = all(len(way.targets) == 1 for n in nodes for way in self._flow.ways[n])
        return _Loop(nodes, has_loop, is_bounded, tuple(order), has_one_token)

    def _by_entries(self, part: _Loop, node: str, most: Mapping[str, int]) -> float:
        """Return the bound by how often its loop is entered, or the node by those before it."""
        if not part.has_loop:
            first = node == self._flow.start
            return first + sum(most[source] for source in self._sources[node])
        if not part.is_bounded:
            return inf
        towards = self._toward(node)
        total = 0.0
        for target in part.nodes:
            sources = [each for each in self._sources[target] if each not in part.nodes]
            entries = float(sum(most[source] for source in sources))
            lengths = self._lengths_of_entries(target, sources)
            if lengths is not None:
                entries = min(entries, lengths.bit_count())
            entries += target == self._flow.start
            entries += self.passes(part).get(target, 0)
            total += entries * towards.in_one_walk(target)
        return total

    def _lengths_of_entries(self, target: str, sources: list[str]) -> Lengths:
        """Return at which steps a loop may be entered at a node from outside."""
        if any(self._part_of[source].has_loop for source in sources):
            return None
        found = 0
        for source in sources:
            lengths = self._toward(source).lengths(self._flow.start)
            if lengths is None:
                return None
            found |= lengths << 1
        return found


class _Towards:
    """How often one node is visited, and after how many steps, from each other node on."""

    def __init__(self, most: _Most, node: str) -> None:
        self._most = most
        self._node = node
        self._visits: dict[str, float] = {}
        self._walks: dict[str, float] = {}  # of loops: until a way with `max` is taken
        self._lengths: dict[str, Lengths] = {}
        for part in reversed(most.parts):
            self._add(part)

    def visits(self, source: str) -> float:
        """Return the most visits from the visit of `source` on, that one included."""
        return self._visits[source]

    def lengths(self, source: str) -> Lengths:
        """Return after how many steps it may be visited."""
        return self._lengths[source]

    def in_one_walk(self, source: str) -> float:
        """Return the most visits in its loop from `source` on, until a way with `max` is taken."""
        return self._walks[source]

    def _add(self, part: _Loop) -> None:
        if not part.has_loop:
            (node,) = part.nodes
            self._lengths[node] = self._lengths_from(node)
            self._visits[node] = self._best(node, self._visits)
        elif not part.is_bounded:
            self._add_unbounded(part)
        else:
            self._add_bounded(part)

    def _add_unbounded(self, part: _Loop) -> None:
        exits = max((self._visits[t] for n in part.nodes for t in self._outside(n)), default=0)
        comes_again = self._node in part.nodes or (exits and not part.has_one_token)
        visits = inf if comes_again else exits
        for node in part.nodes:
            self._visits[node] = visits
            self._lengths[node] = None if visits else 0

    def _add_bounded(self, part: _Loop) -> None:
        is_within = self._node in part.nodes
        walks = self._visits.copy()
        for node in reversed(part.order):
            self._lengths[node] = self._lengths_from(node)
            self._walks[node] = walks[node] = self._best(node, walks)
        further = sum(n * self._walks[target] for target, n in self._most.passes(part).items())
        exits = max((self._visits[t] for n in part.nodes for t in self._outside(n)), default=0)
        reaches = is_within or exits > 0
        for node in part.nodes:
            one_exit = part.has_one_token and not is_within
            self._visits[node] = exits if one_exit else self._walks[node] + further
            self._lengths[node] = None if reaches else 0

    def _outside(self, node: str) -> Iterator[str]:
        part = self._most.part(node)
        for way in self._most.ways(node):
            yield from (target for target in way.targets if target not in part.nodes)

    def _lengths_from(self, node: str) -> Lengths:
        found = int(node == self._node)
        for way in self._most.ways(node):
            for target in way.targets:
                if self._most.is_cut(node, way, target):
                    continue
                further = self._lengths[target]
                if further is None:
                    return None
                found |= further << 1
        return found

    def _best(self, node: str, visits: Mapping[str, float]) -> float:
        """Return the most visits by the best of a node's ways, its own visit included."""
        return (node == self._node) + max(
            (self._by(node, way, visits) for way in self._most.ways(node)), default=0
        )

    def _by(self, node: str, way: FlowWay, visits: Mapping[str, float]) -> float:
        targets = [t for t in way.targets if not self._most.is_cut(node, way, t)]
        summed = sum(visits[target] for target in targets)
        union = 0
        for target in targets:
            lengths = self._lengths[target]
            if lengths is None:
                return summed
            union |= lengths
        # A node is visited once a step, however many branches lead there.
        return min(summed, union.bit_count())
