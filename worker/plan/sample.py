"""Lines of a batch that have been run: what they did and cost, by node and as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.model import Checkpoint, Run
from sleipnir.scheduler.runs.spending import NOTHING_SPENT, Spent, spent_by_node

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.plans import (
        SampledAmountsDocument,
        SampledFigureDocument,
        SampledRunsDocument,
    )

# Runs are read with their histories.
_AT_ONCE = 20
FIGURES = ("calls", "tokens_in", "tokens_out", "usd")


@dataclass(frozen=True, slots=True)
class LineFigures:
    """What one line's run did."""

    spent: Mapping[str, Spent]  # by node
    seconds: float
    succeeded: bool
    routes: frozenset[tuple[str, int, str]]  # node, number and label of those it took

    def of_node(self, node_id: str) -> dict[str, float]:
        """Return the figures of a node, and of all nodes for an empty id."""
        if node_id:
            spent = self.spent.get(node_id, NOTHING_SPENT)
        else:
            spent = sum(self.spent.values(), NOTHING_SPENT)
        return {
            "calls": spent.calls,
            "tokens_in": spent.prompt_tokens,
            "tokens_out": spent.completion_tokens,
            "usd": spent.known_usd,
        }


@dataclass(frozen=True, slots=True)
class LineSample:
    """The finished lines of an input, by their numbers in it."""

    batch: str
    seed: int
    lines: Mapping[int, LineFigures]

    def means(self, node_id: str = "") -> dict[str, float]:
        """Return the mean of each figure of a node, or of whole lines."""
        figures = [line.of_node(node_id) for line in self.lines.values()]
        return {name: fmean(each[name] for each in figures) for name in FIGURES}

    @property
    def mean_s(self) -> float:
        """The mean time of a line, in seconds."""
        return fmean(line.seconds for line in self.lines.values())

    def to_json(self, nodes: Iterable[str]) -> dict[str, Any]:
        """Return the figures, each as its mean and 90th percentile over the lines."""
        return {"batch": self.batch, "seed": self.seed, **self.figures_json(nodes)}

    def figures_json(self, nodes: Iterable[str]) -> SampledRunsDocument:
        """Return the same without where the lines are from."""
        routes = Counter(route for line in self.lines.values() for route in line.routes)
        seconds = _summary([line.seconds for line in self.lines.values()])
        return {
            "lines": len(self.lines),
            "failed": sum(not line.succeeded for line in self.lines.values()),
            "line": {**self._summaries(""), "seconds": seconds},
            "nodes": [{"id": node_id, **self._summaries(node_id)} for node_id in nodes],
            "routes": [
                {"node": node, "index": index, "label": label, "lines": count}
                for (node, index, label), count in sorted(routes.items())
            ],
        }

    def _summaries(self, node_id: str) -> SampledAmountsDocument:
        figures = [line.of_node(node_id) for line in self.lines.values()]
        calls, tokens_in, tokens_out, usd = (
            _summary([each[name] for each in figures]) for name in FIGURES
        )
        return {"calls": calls, "tokens_in": tokens_in, "tokens_out": tokens_out, "usd": usd}


def read_sample(
    client: Client, batch: str, digest: str, numbers: Mapping[str, int], seed: int
) -> LineSample:
    """Read what the finished lines of a batch did; those of another version are left out.

    Args:
        digest: of the agent's bundle.
        numbers: the lines of the input by their ids in the batch.
    """
    lines: dict[int, LineFigures] = {}
    for run_ids in client.queries.batch_pages(batch, _AT_ONCE):
        histories = client.queries.histories(run_ids)
        for run, history in zip(client.queries.runs(run_ids), histories, strict=True):
            number = None if run is None else numbers.get(run.item or "")
            if run is None or number is None or run.digest != digest or not run.is_final:
                continue
            lines[number] = figures_of(run, history)
    return LineSample(batch, seed, lines)


def figures_of(run: Run, history: Sequence[Checkpoint]) -> LineFigures:
    """Return what a run that has ended did."""
    routes = frozenset(
        (node, taken["index"], taken["label"])
        for checkpoint in history
        for node, timing in checkpoint.nodes.items()
        if (taken := timing.get("route")) is not None
    )
    took_ms = (run.ended_at or 0) - (run.started_at or run.ended_at or 0) + run.earlier_ms
    return LineFigures(spent_by_node(run), took_ms / 1000, run.status == "succeeded", routes)


def _summary(values: Sequence[float]) -> SampledFigureDocument:
    ordered = sorted(values)
    return {"mean": fmean(ordered), "p90": ordered[ceil(0.9 * len(ordered)) - 1]}
