"""Which nodes every successful run visits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from sleipnir.graphs.edges import backwards, distances, dominators, reverse_postorder
from sleipnir.graphs.plan.flow import Flow

# What each node leads to: by each of its ways, several side by side.
_Ways: TypeAlias = Mapping[str, Sequence[tuple[str, ...]]]

_MOST_STEPS = 1_000_000


def certain_nodes(flow: Flow, most_steps: int = _MOST_STEPS) -> set[str]:
    """Return the nodes that no run can avoid until it ends.

    Those on all ways to the ends are: the *gates*. There are others if a node leads to several side
    by side: what each of these visits before the run can have ended.

    Args:
        most_steps: for which the nodes between two gates are looked at; if that takes more, none of
            them counts as certain.
    """
    ways = _ways_of(flow)
    adjacency = {node: [t for targets in some for t in targets] for node, some in ways.items()}
    steps_to_end = distances(flow.ends, backwards(adjacency))
    stretches = _stretches(flow, adjacency)
    certain = set(stretches)
    followings = [*stretches, None][1:]
    for nodes, following in zip(stretches.values(), followings, strict=True):
        own = {node: ways[node] for node in nodes}
        if any(len(targets) > 1 for some in own.values() for targets in some):
            steps = 0 if following is None else steps_to_end.get(following, 0)
            stretch = _Stretch(own, flow.ends, following, steps)
            certain.update(stretch.certain(most_steps))
    return certain


def _ways_of(flow: Flow) -> _Ways:
    """Return the ways of each node.

    One that may lead anywhere may end the run or come again, by which it avoids the most nodes.
    """
    ends = [(end,) for end in flow.ends]
    return {
        node: [(node,), *ends] if node in flow.anywhere else [way.targets for way in ways]
        for node, ways in flow.ways.items()
    }


def _stretches(flow: Flow, adjacency: Mapping[str, list[str]]) -> Mapping[str, list[str]]:
    """Return the gates in their order, each with the nodes to which no way leads but through it.

    Of two gates for which that holds the last one counts. The gate is the first of its nodes.
    """
    order = reverse_postorder(adjacency, flow.start)
    place = {node: index for index, node in enumerate(order)}
    sources: list[list[int]] = [[] for _ in order]
    for node in order:
        for target in adjacency[node]:
            sources[place[target]].append(place[node])
    before = dominators(sources)
    common = (1 << len(order)) - 1
    for node in flow.ends & place.keys():
        common &= before[place[node]]
    gates = [node for index, node in enumerate(order) if common >> index & 1]
    found: dict[str, list[str]] = {gate: [gate] for gate in gates}
    for index, node in enumerate(order):
        if not common >> index & 1:
            found[gates[(before[index] & common).bit_count() - 1]].append(node)
    return found


class _Stretch:
    """A gate and the nodes behind it, until the following gate.

    Args:
        ways: of these nodes, the gate first. steps: after which a run can end that has come to the
            following gate, if there is one.
    """

    def __init__(
        self, ways: _Ways, ends: Collection[str], following: str | None, steps: int
    ) -> None:
        self._ways = ways
        self._ends = ends
        self._following = following
        self._steps = steps
        self._everything = (1 << len(ways)) - 1
        self._others = {node: self._everything ^ (1 << at) for at, node in enumerate(ways)}

    def certain(self, most_steps: int) -> Collection[str]:
        """Return its nodes that no run can avoid; only the gate if it takes too long to know.

        One bit for each node: `avoids` holds those that can be avoided for so many steps from a
        node on, `ended` those that can be avoided until an end is reached within these steps.
        Branches go on independently of each other here, by which more can be avoided than in fact,
        never less.
        """
        gate = next(iter(self._ways))
        avoids = dict(self._others)
        ended = {node: avoids[node] if node in self._ends else 0 for node in self._ways}
        avoidable = ended[gate]
        step = 0
        edges = sum(len(targets) for some in self._ways.values() for targets in some)
        for _ in range(most_steps // edges):
            before = ended, avoids
            ended, avoids = self._one_step_more(ended, avoids, can_end=step >= self._steps)
            avoidable |= ended[gate]
            step += 1
            if (ended, avoids) == before and step > self._steps:
                return [node for at, node in enumerate(self._ways) if not avoidable >> at & 1]
            if (ended, avoids) == before:
                step = self._steps  # until then nothing changes
        return [gate]

    def _one_step_more(
        self, ended: Mapping[str, int], avoids: Mapping[str, int], *, can_end: bool
    ) -> tuple[dict[str, int], dict[str, int]]:
        everything = self._everything
        past = everything if can_end else 0
        next_ended, next_avoids = {}, {}
        for node, ways in self._ways.items():
            may_end = may_avoid = everything if node in self._ends else 0
            for targets in ways:
                all_avoid, one_ends = everything, 0
                for target in targets:
                    # What leads out of the stretch is taken to stay out of it.
                    all_avoid &= avoids.get(target, everything)
                    one_ends |= past if target == self._following else ended.get(target, 0)
                may_avoid |= all_avoid
                may_end |= one_ends & all_avoid
            next_ended[node] = self._others[node] & may_end
            next_avoids[node] = self._others[node] & may_avoid
        return next_ended, next_avoids
