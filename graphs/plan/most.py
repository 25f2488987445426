"""How often a run visits each node at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from math import inf
from typing import TypeAlias

from sleipnir.graphs.edges import components, dominators, reachable
from sleipnir.graphs.plan.flow import Flow, FlowWay
from sleipnir.records import dataclass

# Bit k: a walk of k steps leads there. None: walks of unlimited length do.
Lengths: TypeAlias = int | None
Ways: TypeAlias = Mapping[str, tuple[FlowWay, ...]]

_MOST_STEPS = 200_000


def most_visits(flow: Flow, most_steps: int = _MOST_STEPS) -> dict[str, int]:
    """Return the most visits of each node that some way leads to.

    Args:
        most_steps: in which what comes together where branches meet again is counted; if that takes
            more, bounds are looser, never wrong.
    """
    adjacency = _adjacency(flow.ways)
    reached = reachable([flow.start], adjacency)
    if reached & flow.anywhere:
        return {node: 1 if node in flow.ends else flow.cap for node in flow.ways}
    ways = {node: some for node, some in flow.ways.items() if node in reached}
    most = _Most(flow.start, ways, flow.cap, _Steps(most_steps)).of_all()
    return {node: int(min(most[node], 1) if node in flow.ends else most[node]) for node in most}


@dataclass(slots=True)
class _Steps:
    """How many steps may still be taken; the last ones may be more than were left."""

    left: int


@dataclass(frozen=True, slots=True)
class _Part:
    """A strongly connected part of a flow; a part of one node need not have a loop."""

    nodes: tuple[str, ...]  # each before those it leads to by `within`, save by cycles
    has_loop: bool
    within: Ways  # its ways to its own nodes, without those that have `max`
    is_bounded: bool  # by `within`, none of its nodes comes again
    passes: Mapping[str, int]  # how often, at most, ways with `max` lead to nodes of it
    is_forked: bool  # some node leads to several side by side
    # If one does, none of these is of the part: a token that comes to it stays one until it leaves.
    has_one_token: bool


def _part(ways: Ways, nodes: Set[str]) -> _Part:
    adjacency = _adjacency({node: ways[node] for node in nodes})
    within: dict[str, tuple[FlowWay, ...]] = {}
    passes: Counter[str] = Counter()
    for node in nodes:
        stays = [
            FlowWay(tuple(t for t in way.targets if t in nodes), way.most) for way in ways[node]
        ]
        within[node] = tuple(way for way in stays if way.targets and way.most is None)
        for way in stays:
            passes.update(dict.fromkeys(way.targets, way.most or 0))
    inner = _adjacency(within)
    order = list(components(inner))
    return _Part(
        nodes=tuple(node for part in order for node in part),
        has_loop=len(nodes) > 1 or any(node in adjacency[node] for node in nodes),
        within=within,
        is_bounded=len(order) == len(nodes) and not any(n in inner[n] for n in nodes),
        passes=+passes,
        is_forked=any(len(way.targets) > 1 for node in nodes for way in ways[node]),
        has_one_token=all(
            len(way.targets) == 1 or nodes.isdisjoint(way.targets)
            for node in nodes
            for way in ways[node]
        ),
    )


class _Most:
    """The bounds of one flow, part by part from its start on; all of its nodes are reached.

    Tokens are what goes from node to node: a visit has one, and passes one to each of its targets.
    """

    def __init__(self, start: str, ways: Ways, cap: int, steps: _Steps) -> None:
        self._ways = ways
        self._cap = cap
        self._steps = steps
        # Each part before those it leads to.
        self._parts = [_part(ways, nodes) for nodes in components(_adjacency(ways))]
        self._number = {node: at for at, part in enumerate(self._parts) for node in part.nodes}
        # By part: nodes that lead to it, by theirs; and its nodes that these lead to.
        self._sources: list[dict[int, set[str]]] = [{} for _ in self._parts]
        self._entries: list[set[str]] = [set() for _ in self._parts]
        self._entries[0].add(start)
        for node, target in _edges(ways):
            source, at = self._number[node], self._number[target]
            if source != at:
                self._sources[at].setdefault(source, set()).add(node)
                self._entries[at].add(target)
        self._dominators = dominators(self._sources)
        # By part: tokens that come to it from outside, and after how many steps.
        self._arrivals: list[float] = []
        self._lengths: list[Lengths] = []
        # By part: how many dominators has the first of them from which on one token stays alone.
        self._alone_since: list[int] = []
        self._most: dict[str, float] = {}

    def of_all(self) -> Mapping[str, float]:
        """Return the most visits of each node."""
        for at in range(len(self._parts)):
            self._arrive(at)
            self._most |= self._visits(at)
        return self._most

    # ---- arrivals

    def _arrive(self, at: int) -> None:
        """Find out how many tokens come to a part from outside, and after how many steps."""
        lengths: Lengths = 1
        if at == 0:
            arrivals, alone_since = 1.0, 1
        else:
            gate = (self._dominators[at] ^ (1 << at)).bit_length() - 1
            depth = self._dominators[gate].bit_count()
            is_forked = any(
                self._parts[source].is_forked or self._alone_since[source] > depth
                for source in self._sources[at]
            )
            alone_since = depth + 1 if is_forked else self._alone_since[gate]
            lengths = self._lengths_to(at)
            arrivals = sum(self._leaving(source, at) for source in self._sources[at])
            if lengths is not None:  # one visit a step, however many branches lead there
                arrivals = min(arrivals, lengths.bit_count())
            if arrivals > 1:
                each = self._of_each(gate, at) if is_forked else 1
                arrivals = min(arrivals, self._arrivals[gate] * each)
        if not self._parts[at].has_loop:
            arrivals = min(arrivals, self._cap)
        self._arrivals.append(arrivals)
        self._alone_since.append(alone_since)
        self._lengths.append(None if self._parts[at].has_loop else lengths)

    def _lengths_to(self, at: int) -> Lengths:
        """Return after how many steps a part is entered; None also if at several of its nodes."""
        if len(self._entries[at]) > 1:
            return None
        lengths = _union(self._lengths[source] for source in self._sources[at])
        return None if lengths is None else lengths << 1

    def _leaving(self, source: int, at: int) -> float:
        """Return how many tokens one part sends to another."""
        entries = self._entries[at]
        at_once = {
            node: max(len(entries.intersection(way.targets)) for way in self._ways[node])
            for node in self._sources[at][source]
        }
        if self._parts[source].has_one_token:
            return self._arrivals[source] * max(at_once.values())
        return sum(self._most[node] * count for node, count in at_once.items())

    def _of_each(self, gate: int, at: int) -> float:
        """Return how many tokens come to a part of each at another, which all ways to it pass."""
        if self._steps.left <= 0:
            return inf
        between = self._between(gate, at)
        self._steps.left -= sum(
            len(self._sources[part]) + len(self._parts[part].nodes) for part in between
        )
        arrivals: dict[int, float] = {at: 1}
        lengths: dict[int, Lengths] = {at: 1 if len(self._entries[at]) == 1 else None}
        for part in between:
            arrivals[part], lengths[part] = self._from(part, arrivals, lengths)
        return arrivals[gate]

    def _between(self, gate: int, at: int) -> list[int]:
        """Return the parts on the ways from one to another, each after those it leads to."""
        found = {at, gate}
        waiting = [at]
        while waiting:
            new = self._sources[waiting.pop()].keys() - found
            found |= new
            waiting += new
        return sorted(found - {at}, reverse=True)

    def _from(
        self, at: int, arrivals: Mapping[int, float], lengths: Mapping[int, Lengths]
    ) -> tuple[float, Lengths]:
        """Return how many tokens of one at a part arrive, and after how many steps, by its ways.

        Args:
            arrivals, lengths: of one token at each part further on from which some arrive.
        """
        part = self._parts[at]
        best = 0.0
        steps: Lengths = 0
        for way in (way for node in part.nodes for way in self._ways[node]):
            targets = [self._number[target] for target in way.targets]
            summed = sum(arrivals.get(target, 0) for target in targets)
            of_way = _union(lengths.get(target, 0) for target in targets)
            # One visit a step, however many branches lead there.
            best = max(best, summed if of_way is None else min(summed, of_way.bit_count()))
            steps = _union((steps, of_way))
        if not part.has_loop:
            return best, None if steps is None else steps << 1
        return best if part.has_one_token or not best else inf, None if best else 0

    # ---- visits

    def _visits(self, at: int) -> Mapping[str, float]:
        """Return the most visits of the nodes of a part, given the tokens that come to it."""
        part = self._parts[at]
        if not part.has_loop:
            return {part.nodes[0]: self._arrivals[at]}
        if not part.is_bounded:
            return dict.fromkeys(part.nodes, self._cap)
        visits = self._of_one_token(at) if part.has_one_token else self._of_several(at)
        return {node: min(most, self._cap) for node, most in visits.items()}

    def _of_one_token(self, at: int) -> Mapping[str, float]:
        """Return the most visits in a loop: the starts of walks by which a node is reached."""
        part = self._parts[at]
        reach: dict[str, int] = {}  # bit k: the k-th node
        for index, node in reversed([*enumerate(part.nodes)]):
            reach[node] = 1 << index
            for way in part.within[node]:
                reach[node] |= reach[way.targets[0]]
        from_outside = 0
        for entry in self._entries[at]:
            from_outside |= reach[entry]
        starts = [(times, reach[target]) for target, times in part.passes.items()]
        visits = [0.0] * len(part.nodes)
        below_cap = (1 << len(part.nodes)) - 1
        for times, reached in [(self._arrivals[at], from_outside), *starts]:
            for index in _bits(reached & below_cap):
                visits[index] += times
                if visits[index] >= self._cap:
                    below_cap ^= 1 << index
        return dict(zip(part.nodes, visits, strict=True))

    def _of_several(self, at: int) -> Mapping[str, float]:
        """Return the most visits in a loop some of whose nodes lead to several side by side."""
        part = self._parts[at]
        from_outside = [self._walk(part, entry) for entry in self._entries[at]]
        visits = {
            node: self._arrivals[at] * max(walk.get(node, 0) for walk in from_outside)
            for node in part.nodes
        }
        for target, times in part.passes.items():
            for node, most in self._walk(part, target).items():
                visits[node] += times * most
        return visits

    def _walk(self, part: _Part, start: str) -> Mapping[str, float]:
        """Return the most visits in a loop from a node on until a way with `max` is taken."""
        if self._steps.left <= 0:
            return dict.fromkeys(part.nodes, inf)
        self._steps.left -= len(part.nodes)
        adjacency = _adjacency(part.within)
        reached = reachable([start], adjacency)
        ways = {node: some for node, some in part.within.items() if node in reached}
        return _Most(start, ways, self._cap, self._steps).of_all()


def _edges(ways: Ways) -> Iterator[tuple[str, str]]:
    return ((node, t) for node, some in ways.items() for way in some for t in way.targets)


def _adjacency(ways: Ways) -> dict[str, list[str]]:
    """Return the nodes that each node may lead to; also those outside."""
    found: dict[str, dict[str, None]] = {node: {} for node in ways}
    for node, target in _edges(ways):
        found[node][target] = None
    return {node: list(targets) for node, targets in found.items()}


def _union(some: Iterable[Lengths]) -> Lengths:
    found = 0
    for lengths in some:
        if lengths is None:
            return None
        found |= lengths
    return found


def _bits(number: int) -> Iterator[int]:
    """Yield the places of the bits that are set."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
