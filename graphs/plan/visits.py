"""How often one run visits each node at least and at most, if it succeeds and no node fails.

A lower bound is never too large and an upper bound never too small. Upper ones are exact for
chains, choices, joins of branches of equal length, and single loops.
"""

from __future__ import annotations

from sleipnir.graphs.plan.certain import certain_nodes
from sleipnir.graphs.plan.flow import Flow
from sleipnir.graphs.plan.interval import Interval
from sleipnir.graphs.plan.most import most_visits


def visit_bounds(flow: Flow) -> dict[str, Interval]:
    """Return the bounds of the visits of each node of a flow, in its order."""
    certain, most = certain_nodes(flow), most_visits(flow)
    return {
        node: Interval(int(node in certain and node in most), most.get(node, 0))
        for node in flow.ways
    }
