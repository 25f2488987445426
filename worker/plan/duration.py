"""How long a batch takes, by the rates of its models' providers and by the slots of workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sleipnir.graphs.models import standard_model
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings, RateLimits
from sleipnir.scheduler.runs.spending import NOTHING_SPENT, Spent
from sleipnir.worker.plan.sample import LineSample


@dataclass(frozen=True, slots=True)
class Pace:
    """What bounds the calls of a batch."""

    models: ModelSettings
    default_model: str | None
    slots: int  # nodes that workers execute at once

    def seconds(self, graph: Graph, sample: LineSample, lines: int) -> float:
        """Return the time for so many lines: that of the provider which takes longest."""
        times = lines / len(sample.lines)
        return max(
            (
                times * _seconds(spent, self._limits(provider), self.slots)
                for provider, spent in self._by_provider(graph, sample).items()
            ),
            default=0.0,
        )

    def _by_provider(self, graph: Graph, sample: LineSample) -> Mapping[str, Spent]:
        found: dict[str, Spent] = defaultdict(lambda: NOTHING_SPENT)
        for line in sample.lines.values():
            for node_id, spent in line.spent.items():
                node = graph.nodes.get(node_id)
                own = node.model if isinstance(node, LlmNode) else None
                name = own or graph.model or self.default_model or ""
                model = self.models.chain(name)[0] if name else standard_model(name)
                found[model.partition(":")[0]] += spent
        return found

    def _limits(self, provider: str) -> RateLimits:
        return self.models.providers.get(provider) or RateLimits()


def _seconds(spent: Spent, limits: RateLimits, slots: int) -> float:
    tokens = spent.prompt_tokens + spent.completion_tokens
    at_once = min(limits.concurrency or slots, slots) or 1
    return max(
        60 * spent.calls / limits.requests_per_minute if limits.requests_per_minute else 0.0,
        60 * tokens / limits.tokens_per_minute if limits.tokens_per_minute else 0.0,
        spent.ms / 1000 / at_once,
    )
