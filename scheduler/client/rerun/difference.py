"""Compares two runs: their routes, the results of each node, and their ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.history import moment_after
from sleipnir.scheduler.runs.model import NO_USAGE, Checkpoint, Run, Status, Usage
from sleipnir.scheduler.runs.spending import spent_by_node

if TYPE_CHECKING:
    from sleipnir.scheduler.client.rerun.documents import (
        ComparedNodeDocument,
        DifferenceDocument,
        PairDocument,
    )
    from sleipnir.scheduler.runs.documents import FailureDocument
    from sleipnir.scheduler.store.queries import RunQueries

Step = tuple[str, ...]  # its nodes, sorted

# Memory to align steps grows with the square of this: 12 MB. Those further apart are not aligned.
_MOST_ALIGNED = 10_000


@dataclass(frozen=True, slots=True)
class Side:
    """One of two compared runs."""

    run: Run
    checkpoints: Sequence[Checkpoint]  # the last one of a step that was not committed, if it failed
    state: Mapping[str, Any]
    steps: int  # committed ones

    @property
    def route(self) -> list[Step]:
        return [tuple(sorted(checkpoint.nodes)) for checkpoint in self.checkpoints[1:]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A value of both runs; None if a run does not have it."""

    a: Any
    b: Any

    @property
    def differs(self) -> bool:
        return bool(self.a != self.b)

    def to_json(self) -> PairDocument:
        return {"a": self.a, "b": self.b}


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """A node that one or both runs visited at the same place of their routes."""

    node: str
    fields: Mapping[str, Pair]  # step, route, output, writes of its step, error, elapsed_s, usage

    def to_json(self) -> ComparedNodeDocument:
        return {
            "id": self.node,
            "step": self.fields["step"].to_json(),
            "output": self.fields["output"].to_json(),
            "writes": self.fields["writes"].to_json(),
            "error": self.fields["error"].to_json(),
            "route": self.fields["route"].to_json(),
            "elapsed_s": self.fields["elapsed_s"].to_json(),
            "usage": self.fields["usage"].to_json(),
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """How two runs differ."""

    common: Sequence[Step]  # the common steps at the beginning
    route: Pair  # the steps of each from there on
    nodes: Sequence[NodeDifference]
    added: Mapping[str, Any]  # values of the final state, by path
    removed: Mapping[str, Any]
    changed: Mapping[str, Pair]
    output: Pair
    totals: Mapping[str, Pair]

    @property
    def equal(self) -> bool:
        """Whether route, output and final state are the same."""
        state = self.added or self.removed or self.changed
        return not (self.route.differs or self.output.differs or state)

    def to_json(self) -> DifferenceDocument:
        """Return the document of `diff --json`."""
        return {
            "equal": self.equal,
            "route": {"common": self.common, "a": self.route.a, "b": self.route.b},
            "nodes": [node.to_json() for node in self.nodes],
            "state": {
                "added": dict(self.added),
                "removed": dict(self.removed),
                "changed": {path: pair.to_json() for path, pair in self.changed.items()},
            },
            "totals": {name: pair.to_json() for name, pair in self.totals.items()},
        }


def side_of(records: RunQueries, run_id: str, step: int | None) -> Side:
    """Return a run as it is now, or as it was after a step."""
    run = records.run(run_id)
    if step is None:
        history = records.history(run_id)
        failed = _failed_step(records, run, history)
        return Side(run, [*history, *failed], records.state(run_id), len(history) - 1)
    checkpoints = list(islice(records.checkpoints(run_id), step + 1))
    try:
        return Side(run, checkpoints, moment_after(checkpoints, step).state, len(checkpoints) - 1)
    except IndexError as error:
        raise SubmissionRefused(f"run {run_id}: {error}") from error


def _failed_step(
    records: RunQueries, run: Run, history: Sequence[Checkpoint]
) -> Iterator[Checkpoint]:
    """Yield the step at which a run failed, as if it were committed; nothing for other runs."""
    if run.status != Status.FAILED or run.failure is None or run.ended_at is None:
        return
    step, spent = records.last_step(run), spent_by_node(run)
    nodes = {}
    for visit in step.visits:
        if visit.state == "untouched":
            continue
        timing = dict(step.timings.get(visit.node, {}))
        if visit.began_ms is not None:
            timing.setdefault("ms", max(0, run.ended_at - visit.began_ms - visit.parked_ms))
        if visit.node == run.failure.node:
            timing["failure"] = run.failure.message
        before = [each.nodes.get(visit.node, {}).get("usage") for each in history]
        used = sum((Usage(*usage) for usage in before if usage), NO_USAGE)
        if visit.node in spent:
            timing["usage"] = spent[visit.node].usage.beyond(used).to_list()
        nodes[visit.node] = timing
    if nodes:
        yield Checkpoint(run.step, run.ended_at, {}, tuple(nodes), nodes)


def compare(a: Side, b: Side) -> Difference:
    """Return how `b` differs from `a`."""
    routes = a.route, b.route
    first = _common(*routes)
    leaves = dict(_leaves(a.state)), dict(_leaves(b.state))
    return Difference(
        common=routes[0][:first],
        route=Pair(routes[0][first:], routes[1][first:]),
        nodes=list(_nodes(a, b)),
        added={path: value for path, value in leaves[1].items() if path not in leaves[0]},
        removed={path: value for path, value in leaves[0].items() if path not in leaves[1]},
        changed={
            path: Pair(value, leaves[1][path])
            for path, value in leaves[0].items()
            if path in leaves[1] and leaves[1][path] != value
        },
        output=Pair(a.run.output, b.run.output),
        totals=_totals(a, b),
    )


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf value with its path, including empty objects and lists."""
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        parts = [(f"{path}.{key}" if path else str(key), part) for key, part in value.items()]
    elif isinstance(value, list):
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    if not parts and path:
        yield path, value
    for name, part in parts:
        yield from _leaves(part, name)


def _nodes(a: Side, b: Side) -> Iterator[NodeDifference]:
    """Yield the nodes of both runs, aligned by the common parts of their routes."""
    for step_a, step_b in _aligned(a.route, b.route):
        yield from _of_step(a, step_a, b, step_b)


def _aligned(a: Sequence[Step], b: Sequence[Step]) -> Iterator[tuple[int | None, int | None]]:
    """Yield the numbers of steps that belong together; None: the other run has no such step."""
    common = _common(a, b)
    yield from ((step, step) for step in range(1, common + 1))
    for start in range(common, max(len(a), len(b)), _MOST_ALIGNED):
        parts = [route[start : start + _MOST_ALIGNED] for route in (a, b)]
        next_a, next_b = 0, 0
        ends = (len(parts[0]), len(parts[1]))
        for at_a, at_b in (*longest_common(*parts), ends):
            yield from ((start + step + 1, None) for step in range(next_a, at_a))
            yield from ((None, start + step + 1) for step in range(next_b, at_b))
            if (at_a, at_b) != ends:
                yield start + at_a + 1, start + at_b + 1
            next_a, next_b = at_a + 1, at_b + 1


def longest_common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return a longest common subsequence of two sequences, as pairs of positions in order.

    Computed a row of the table at once, in the bits of an integer, as by Hyyrö (2004): loops of a
    graph repeat the same few steps, for which difflib takes minutes.
    """
    places: dict[Hashable, int] = defaultdict(int)
    for at, each in enumerate(a):
        places[each] |= 1 << at
    every = (1 << len(a)) - 1
    rows = [every]  # a bit is 0 where one more of `a` makes the common subsequence longer
    for each in b:
        matching = rows[-1] & places.get(each, 0)
        rows.append(((rows[-1] + matching) | (rows[-1] - matching)) & every)
    pairs: list[tuple[int, int]] = []
    at_a, at_b = len(a) - 1, len(b) - 1
    while at_a >= 0 and at_b >= 0:
        if a[at_a] == b[at_b]:
            pairs.append((at_a, at_b))
            at_a, at_b = at_a - 1, at_b - 1
        elif rows[at_b + 1] >> at_a & 1:
            at_a -= 1
        else:
            at_b -= 1
    return pairs[::-1]


def _common(a: Sequence[Step], b: Sequence[Step]) -> int:
    """Return how many steps at the beginning are the same."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))


def _of_step(a: Side, step_a: int | None, b: Side, step_b: int | None) -> Iterator[NodeDifference]:
    names = {
        node
        for side, step in ((a, step_a), (b, step_b))
        if step is not None
        for node in side.checkpoints[step].nodes
    }
    for node in sorted(names):
        told = _told(a, step_a, node), _told(b, step_b, node)
        fields = {name: Pair(told[0].get(name), told[1].get(name)) for name in _FIELDS}
        yield NodeDifference(node, fields)


_FIELDS = ("step", "route", "output", "writes", "error", "elapsed_s", "usage")


def _told(side: Side, step: int | None, node: str) -> dict[str, Any]:
    """Return what a run's history has of a node at a step; empty if it was not there.

    Steps that a fork has copied have neither time nor usage: the fork did not run them.
    """
    if step is None:
        return {}
    checkpoint = side.checkpoints[step]
    timing = checkpoint.nodes[node]
    usage = Usage(*timing["usage"]) if "usage" in timing else NO_USAGE
    is_own = side.run.forked_from is None or step > side.run.forked_from[1]
    return {
        "step": checkpoint.step,
        "route": _decision(timing),
        "output": None if checkpoint.frontier else side.run.output,
        "writes": dict(checkpoint.writes),
        "error": timing.get("failure"),
        "elapsed_s": timing.get("ms", 0) / 1000 if is_own else None,
        "usage": usage.to_json() if is_own else None,
    }


def _decision(timing: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the route that a node's conditions chose; None if it has none."""
    route = timing.get("route")
    return None if route is None else {"index": route["index"], "label": route["label"]}


def _totals(a: Side, b: Side) -> dict[str, Pair]:
    def elapsed_s(run: Run) -> float | None:
        if run.started_at is None or run.ended_at is None:
            return None
        return (run.ended_at - run.started_at) / 1000

    def error(run: Run) -> FailureDocument | None:
        return None if run.failure is None else run.failure.to_json()

    return {
        "status": Pair(str(a.run.status), str(b.run.status)),
        "error": Pair(error(a.run), error(b.run)),
        "steps": Pair(a.steps, b.steps),
        "elapsed_s": Pair(elapsed_s(a.run), elapsed_s(b.run)),
        "usage": Pair(a.run.usage.to_json(), b.run.usage.to_json()),
    }
