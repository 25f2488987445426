"""The plan of an agent for the lines of an input, and its document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sleipnir.records import dataclass
from sleipnir.worker.plan.amounts import Amounts, interval_json
from sleipnir.worker.plan.estimate import Estimate, estimate, strata_of
from sleipnir.worker.plan.rows import AgentRows, NodeRow, merged, total
from sleipnir.worker.plan.sample import FIGURES, LineSample


@dataclass(frozen=True, slots=True)
class InputPlan:
    """What runs of an agent, one for each line, do at least and at most."""

    nodes: tuple[NodeRow, ...]  # of any one run
    per_line: Amounts  # of any one run
    total: Amounts  # of all lines
    known_prompt_share: float | None  # None: no call is certain
    differing: frozenset[str]  # nodes with a cache, of which no two lines have a prompt in common
    seeded: frozenset[str]  # keys that each line's run has from the beginning
    lengths: Mapping[int, float]  # tokens of what is known of a line's prompts, by its number

    @property
    def lines(self) -> int:
        """How many lines there are; without an input one."""
        return len(self.lengths)

    @property
    def strata(self) -> list[list[int]]:
        """The numbers of the lines, by the length of their prompts."""
        return strata_of(self.lengths)

    def estimates(self, sample: LineSample) -> dict[str, Estimate]:
        """Return what all lines sum up to, as far as a sample tells."""
        lines = {number: line.of_node("") for number, line in sample.lines.items()}
        return {
            name: estimate(self.strata, {number: each[name] for number, each in lines.items()})
            for name in FIGURES
        }

    def to_json(self, sample: LineSample | None) -> dict[str, Any]:
        """Return the figures with the keys of `plan --json`."""
        known = sample if sample is not None and sample.lines else None
        whole = self.total.to_json()
        whole["usd"] |= {"low": None, "high": None}
        nodes = [_node_json(row) for row in self.nodes]
        per_line = self.per_line.to_json()
        if known is not None:
            for node in nodes:
                _expect(node, known.means(node["id"]))
            means = known.means()
            _expect(per_line, {name: means[name] for name in FIGURES})
            found = self.estimates(known)
            _expect(whole, {name: each.expected for name, each in found.items()})
            if self.total.is_priced:
                whole["usd"] |= {"low": found["usd"].low, "high": found["usd"].high}
        return {
            "lines": self.lines,
            "known_prompt_share": self.known_prompt_share,
            "nodes": nodes,
            "per_line": per_line,
            "total": whole,
            "sample": None if known is None else known.to_json(row.node_id for row in self.nodes),
        }


def plan_of(rows: AgentRows, states: Iterable[tuple[int, Mapping[str, Any]]]) -> InputPlan:
    """Return the plan for runs, given by a line's number and first state; there is at least one."""
    nodes: list[NodeRow] = []
    per_line = whole = Amounts()
    certain, known = 0.0, 0.0
    keys: dict[str, set[int]] = {}
    lengths: dict[int, float] = {}
    seeded: frozenset[str] | None = None
    for number, state in states:
        of_line = rows.of_run(state)
        amounts = total(of_line)
        nodes = merged(nodes, of_line) if lengths else of_line
        per_line = per_line.or_other(amounts) if lengths else amounts
        whole += amounts
        certain += amounts.calls.least
        known += sum(row.known_calls for row in of_line)
        seeded = frozenset(state) if seeded is None else seeded & state.keys()
        lengths[number] = amounts.tokens_in.least
        for row in of_line:
            if row.prompt_key is not None:
                keys.setdefault(row.node_id, set()).add(row.prompt_key)
    differing = frozenset(node_id for node_id, some in keys.items() if len(some) == len(lengths))
    share = round(known / certain, 4) if certain else None
    return InputPlan(
        tuple(nodes), per_line, whole, share, differing, seeded or frozenset(), lengths
    )


def _node_json(row: NodeRow) -> dict[str, Any]:
    return {
        "id": row.node_id,
        "type": row.type,
        "visits": interval_json(row.visits),
        **row.amounts.to_json(),
    }


def _expect(document: dict[str, Any], figures: Mapping[str, float]) -> None:
    for name, value in figures.items():
        # Without a price, nothing is known of money.
        if name != "usd" or document["usd"]["least"] is not None:
            document[name]["expected"] = value
