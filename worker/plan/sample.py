"""Lines of a batch that have been run: what they did and cost, by node and as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.runs.history import NodeTimes, node_times
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
    times: Mapping[str, NodeTimes]  # by node
    seconds: float
    succeeded: bool
    routes: frozenset[tuple[str, int, str]]  # node, number and label of those it took

    def of_node(self, node_id: str) -> dict[str, float]:
        """Return the figures of a node, and of the whole run for an empty id."""
        if node_id:
            spent, times = self.spent.get(node_id, NOTHING_SPENT), self.times.get(node_id)
            visits = 0 if times is None else times.visits
            seconds = 0.0 if times is None else times.total_ms / 1000
        else:
            spent, seconds = sum(self.spent.values(), NOTHING_SPENT), self.seconds
            visits = sum(times.visits for times in self.times.values())
        return {
            "visits": visits,
            "calls": spent.calls,
            "tokens_in": spent.prompt_tokens,
            "tokens_out": spent.completion_tokens,
            "usd": spent.known_usd,
            "seconds": seconds,
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
        return {name: fmean(each[name] for each in figures) for name in ("visits", *FIGURES)}

    def longest_prompt(self, node_id: str) -> float:
        """Return the 90th percentile of a node's mean prompt in a line, in tokens."""
        spent = (line.spent.get(node_id, NOTHING_SPENT) for line in self.lines.values())
        prompts = [each.prompt_tokens / each.calls for each in spent if each.calls]
        return _summary(prompts)["p90"] if prompts else 0.0

    def to_json(self, nodes: Iterable[str]) -> dict[str, Any]:
        """Return the figures, each as its mean and 90th percentile over the lines."""
        return {"batch": self.batch, "seed": self.seed, **self.figures_json(nodes)}

    def figures_json(self, nodes: Iterable[str]) -> SampledRunsDocument:
        """Return the same without where the lines are from."""
        routes = Counter(route for line in self.lines.values() for route in line.routes)
        return {
            "lines": len(self.lines),
            "failed": sum(not line.succeeded for line in self.lines.values()),
            "line": self.summaries(""),
            "nodes": [{"id": node_id, **self.summaries(node_id)} for node_id in nodes],
            "routes": [
                {"node": node, "index": index, "label": label, "lines": count}
                for (node, index, label), count in sorted(routes.items())
            ],
        }

    def summaries(self, node_id: str = "") -> SampledAmountsDocument:
        """Return mean and 90th percentile of the figures of a node, or of whole lines."""
        figures = [line.of_node(node_id) for line in self.lines.values()]
        calls, tokens_in, tokens_out, usd, seconds = (
            _summary([each[name] for each in figures]) for name in (*FIGURES, "seconds")
        )
        return {
            "calls": calls,
            "tokens_in": tokens_in,
            "tokens_out": tokens_out,
            "usd": usd,
            "seconds": seconds,
        }


def read_sample(
    client: Client, batch: str, agent: PreparedAgent, numbers: Mapping[str, int], seed: int
) -> LineSample:
    """Read what the finished lines of a batch did; those of another version are left out.

    Args:
        numbers: the lines of the input by their ids in the batch.
    """
    versions = AgentVersions(client.store.bundles)
    version = versions.of(agent.digest, agent.agents)
    lines: dict[int, LineFigures] = {}
    for run_ids in client.queries.batch_pages(batch, _AT_ONCE):
        histories = client.queries.histories(run_ids)
        for run, history in zip(client.queries.runs(run_ids), histories, strict=True):
            number = None if run is None else numbers.get(run.item or "")
            if run is None or number is None or not run.is_final:
                continue
            if versions.of(run.digest, run.context.agents) != version:
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
    times = {each.node: each for each in node_times(history)}
    succeeded = run.status == "succeeded"
    return LineFigures(spent_by_node(run), times, took_ms / 1000, succeeded, routes)


def _summary(values: Sequence[float]) -> SampledFigureDocument:
    ordered = sorted(values)
    return {"mean": fmean(ordered), "p90": ordered[ceil(0.9 * len(ordered)) - 1]}
