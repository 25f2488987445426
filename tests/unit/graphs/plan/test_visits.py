"""The bounds of visits: against runs of random graphs, and exact where they are said to be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest

from sleipnir.graphs.plan.certain import certain_nodes
from sleipnir.graphs.plan.flow import Flow, FlowWay
from sleipnir.graphs.plan.most import most_visits
from sleipnir.graphs.plan.visits import visit_bounds

CAP = 20


def flow(start: str, **ways: list[FlowWay]) -> Flow:
    """A flow; nodes without ways are its ends."""
    targets = {node: tuple(some) for node, some in ways.items()}
    ends = frozenset(node for node, some in targets.items() if not some)
    return Flow(start, targets, ends, cap=CAP)


def to(*targets: str, most: int | None = None) -> FlowWay:
    return FlowWay(targets, most)


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        pytest.param(
            flow("a", a=[to("b")], b=[to("end")], end=[]),
            {"a": (1, 1), "b": (1, 1), "end": (1, 1)},
            id="chain",
        ),
        pytest.param(
            flow("a", a=[to("b"), to("c")], b=[to("d")], c=[to("e")], d=[to("e")], e=[]),
            {"a": (1, 1), "b": (0, 1), "c": (0, 1), "d": (0, 1), "e": (1, 1)},
            id="choice of different lengths",
        ),
        pytest.param(
            flow("a", a=[to("b", "c")], b=[to("d")], c=[to("d")], d=[to("end")], end=[]),
            {"a": (1, 1), "b": (1, 1), "c": (1, 1), "d": (1, 1), "end": (1, 1)},
            id="join of branches of equal length",
        ),
        pytest.param(
            flow("a", a=[to("b", "c")], b=[to("d")], c=[to("x")], x=[to("y")], y=[to("d")],
                 d=[to("end")], end=[]),
            {"a": (1, 1), "b": (1, 1), "c": (1, 1), "x": (1, 1), "y": (1, 1), "d": (1, 2),
             "end": (1, 1)},
            id="the run ends by the shorter branch, in the step of the longer one's last",
        ),
        pytest.param(
            flow("a", a=[to("b")], b=[to("a", most=3), to("end")], end=[]),
            {"a": (1, 4), "b": (1, 4), "end": (1, 1)},
            id="loop of two",
        ),
        pytest.param(
            flow("a", a=[to("a", most=3), to("b")], b=[to("c")], c=[to("end")], end=[]),
            {"a": (1, 4), "b": (1, 1), "c": (1, 1), "end": (1, 1)},
            id="a node after a loop",
        ),
        pytest.param(
            flow("a", a=[to("b", "c")], b=[to("d")], c=[to("d")],
                 d=[to("d", most=3), to("end")], end=[]),
            {"a": (1, 1), "b": (1, 1), "c": (1, 1), "d": (1, 4), "end": (1, 1)},
            id="a loop after a join",
        ),
        pytest.param(
            flow("a", a=[to("x"), to("b")], x=[to("b")], b=[to("c", "d")], c=[to("e")],
                 d=[to("e")], e=[to("end")], end=[]),
            {"a": (1, 1), "x": (0, 1), "b": (1, 1), "c": (1, 1), "d": (1, 1), "e": (1, 1),
             "end": (1, 1)},
            id="a join after a choice of different lengths",
        ),
        pytest.param(
            flow("a", a=[to("a", most=3), to("b", "c")], b=[to("d")], c=[to("d")], d=[to("end")],
                 end=[]),
            {"a": (1, 4), "b": (1, 1), "c": (1, 1), "d": (1, 1), "end": (1, 1)},
            id="a loop that leads to several side by side",
        ),
        pytest.param(
            flow("a", a=[to("b", "c")], b=[to("end")], c=[to("x")], x=[to("y")], y=[to("end")],
                 end=[]),
            {"a": (1, 1), "b": (1, 1), "c": (1, 1), "x": (1, 1), "y": (0, 1), "end": (1, 1)},
            id="the run may end before the longer branch does",
        ),
        pytest.param(
            flow("a", a=[to("b")], b=[to("a"), to("end")], end=[]),
            {"a": (1, CAP), "b": (1, CAP), "end": (1, 1)},
            id="a loop that only the cap ends",
        ),
        pytest.param(
            flow("a", a=[to("end")], b=[to("end")], end=[]),
            {"a": (1, 1), "b": (0, 0), "end": (1, 1)},
            id="a node that nothing leads to",
        ),
        pytest.param(
            flow("a", a=[to("a", most=50), to("end")], end=[]),
            {"a": (1, CAP), "end": (1, 1)},
            id="never more than the cap",
        ),
    ],
)  # fmt: skip
def test_bounds(drawn: Flow, expected: dict[str, tuple[int, int]]) -> None:
    bounds = visit_bounds(drawn)

    assert {node: (each.least, each.most) for node, each in bounds.items()} == expected


def test_a_node_that_may_lead_anywhere() -> None:
    ways = {"a": (to("b"),), "b": (to("c"),), "c": (to("end"),), "end": ()}
    bounds = visit_bounds(Flow("a", ways, frozenset({"end"}), frozenset({"b"}), CAP))

    found = {node: (each.least, each.most) for node, each in bounds.items()}
    assert found == {"a": (1, CAP), "b": (1, CAP), "c": (0, CAP), "end": (1, 1)}


def random_flow(random: Random) -> Flow:
    """A flow of at most nine nodes, with choices, branches side by side and loops."""
    names = [f"n{index}" for index in range(random.randint(1, 8))]
    ways: dict[str, tuple[FlowWay, ...]] = {}
    for index, name in enumerate(names):
        further = [*names[index + 1 :], "end"]
        some = []
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            is_back = random.random() < 0.25
            near = names[: index + 1] if is_back else further[:4]
            count = random.choice((1, 1, 1, 2, 3))
            targets = tuple(dict.fromkeys(random.choice(near) for _ in range(count)))
            most = random.randint(1, 4) if random.random() < (0.8 if is_back else 0.1) else None
            some.append(FlowWay(targets, most))
        ways[name] = tuple(some)
    ways["end"] = ()
    return Flow("n0", ways, frozenset({"end"}), cap=CAP)


def run(drawn: Flow, random: Random) -> dict[str, int] | None:
    """Run a flow, by the rules of super-steps; None if the run fails."""
    visits = dict.fromkeys(drawn.ways, 0)
    frontier = {drawn.start}
    while True:
        for node in frontier:
            visits[node] += 1
            if visits[node] > drawn.cap:
                return None
        if frontier & drawn.ends:
            return visits
        following: set[str] = set()
        for node in sorted(frontier):
            ways = drawn.ways[node]
            some = [way for way in ways if way.most is None or visits[node] <= way.most]
            if not some:
                return None
            following |= set(random.choice(some).targets)
        frontier = following


def test_bounds_hold_for_every_run_of_random_graphs() -> None:
    random = Random(17)
    succeeded = 0
    for _ in range(1_000):
        drawn = random_flow(random)
        bounds = visit_bounds(drawn)
        at_once = certain_nodes(drawn, most_steps=0), most_visits(drawn, most_steps=0)
        for _ in range(40):
            visits = run(drawn, random)
            succeeded += visits is not None
            for node, times in (visits or {}).items():
                assert bounds[node].least <= times <= bounds[node].most, (drawn, node, times)
                assert (node in at_once[0]) <= times <= at_once[1].get(node, 0), (
                    drawn,
                    node,
                    times,
                )
    assert succeeded > 10_000


def dense_loop(nodes: int) -> Flow:
    """A flow whose nodes lead to one of the next ones, or back to any."""
    random, ways = Random(nodes), dict[str, tuple[FlowWay, ...]]()
    names = [*(f"n{index}" for index in range(nodes)), "end"]
    for index, name in enumerate(names[:-1]):
        back = to(random.choice(names[: index + 1]), most=3)
        ways[name] = (*map(to, names[index + 1 : index + 5]), back)
    return Flow("n0", {**ways, "end": ()}, frozenset({"end"}))


def chain_of_joins(nodes: int) -> Flow:
    """A flow of pairs of nodes side by side, one pair after the other."""
    ways: dict[str, tuple[FlowWay, ...]] = {"end": ()}
    following = "end"
    for index in range(nodes // 3):
        join = f"join{index}"
        ways |= {f"b{index}": (to(following),), f"c{index}": (to(following),)}
        ways[join] = (to(f"b{index}", f"c{index}"),)
        following = join
    return Flow(following, ways, frozenset({"end"}))


@pytest.mark.parametrize("drawn", [dense_loop, chain_of_joins])
def test_the_work_grows_with_the_graph_and_not_with_its_square(
    drawn: Callable[[int], Flow],
) -> None:
    small, large = (lines_of(visit_bounds, drawn(nodes)) for nodes in (100, 400))

    assert large < 6 * small


def lines_of(function: Callable[[Flow], object], drawn: Flow) -> int:
    """Return how many lines a call executes."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(drawn)
    finally:
        sys.settrace(before)
    return lines
