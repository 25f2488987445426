"""The plan of an agent for the lines of an input, and its document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sleipnir.records import dataclass
from sleipnir.worker.plan.amounts import Amounts, bounds_json
from sleipnir.worker.plan.rows import AgentRows, NodeRow, merged, total


@dataclass(frozen=True, slots=True)
class InputPlan:
    """What runs of an agent, one for each line, do at least and at most."""

    lines: int
    nodes: tuple[NodeRow, ...]  # of any one run
    per_line: Amounts  # of any one run
    total: Amounts  # of all lines
    known_prompt_share: float | None  # None: no call is certain
    differing: frozenset[str]  # nodes with a cache, of which no two lines have a prompt in common

    def to_json(self) -> dict[str, Any]:
        """Return the figures with the keys of `plan --json`."""
        total_json = self.total.to_json()
        # What is expected of an input, and between which bounds, is known from a sample only.
        total_json["usd"] |= {"low": None, "high": None}
        return {
            "lines": self.lines,
            "known_prompt_share": self.known_prompt_share,
            "nodes": [_node_json(row) for row in self.nodes],
            "per_line": self.per_line.to_json(),
            "total": total_json,
        }


def plan_of(rows: AgentRows, states: Iterable[Mapping[str, Any]]) -> InputPlan:
    """Return the plan for runs with these first states, of which there is at least one."""
    nodes: list[NodeRow] = []
    per_line = whole = Amounts()
    lines, certain, known = 0, 0.0, 0.0
    keys: dict[str, set[int]] = {}
    for state in states:
        of_line = rows.of_run(state)
        amounts = total(of_line)
        nodes = merged(nodes, of_line) if lines else of_line
        per_line = per_line.or_other(amounts) if lines else amounts
        whole += amounts
        certain += amounts.calls.least
        known += sum(row.known_calls for row in of_line)
        lines += 1
        for row in of_line:
            if row.prompt_key is not None:
                keys.setdefault(row.node_id, set()).add(row.prompt_key)
    differing = frozenset(node_id for node_id, some in keys.items() if len(some) == lines)
    share = round(known / certain, 4) if certain else None
    return InputPlan(lines, tuple(nodes), per_line, whole, share, differing)


def _node_json(row: NodeRow) -> dict[str, Any]:
    visits = row.visits
    return {
        "id": row.node_id,
        "type": row.type,
        "visits": bounds_json(visits),
        **row.amounts.to_json(),
    }
