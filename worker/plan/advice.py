"""What is odd about a plan: prompts too long, budgets too small, caches without use."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.plan.calls import is_cached
from sleipnir.graphs.plan.unset import unset_reads
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.limits.money import dollars
from sleipnir.worker.plan.document import InputPlan
from sleipnir.worker.plan.prices import PlannedModels
from sleipnir.worker.plan.sample import LineSample


@dataclass(frozen=True, slots=True)
class Advice:
    """The findings of a plan alone, with their places in the agent's file."""

    agent: Agent
    graph: Graph
    settings: Settings
    models: PlannedModels

    def of(self, plan: InputPlan, sample: LineSample | None = None) -> Iterator[Finding]:
        """Yield them."""
        yield from self._unset(plan)
        yield from self._too_long(plan, sample)
        yield from self._too_dear(plan)
        yield from self._never_again(plan)

    def _unset(self, plan: InputPlan) -> Iterator[Finding]:
        """W028: a key that only other ways through the graph set."""
        for read in unset_reads(self.graph, plan.seeded):
            message = f"nothing sets '{read.key}' on the path {' -> '.join(read.way)}"
            yield self._finding("W028", message, "nodes", read.node_id, *read.field)

    def _too_long(self, plan: InputPlan, sample: LineSample | None) -> Iterator[Finding]:
        """W029: a prompt may be longer than what its model reads."""
        for row in plan.nodes:
            node = self.graph.nodes[row.node_id]
            if not isinstance(node, LlmNode):
                continue
            name = node.model or self.graph.model or self.settings.model or ""
            context = self.models.find(name).context
            sampled = 0.0 if sample is None else sample.longest_prompt(row.node_id)
            longest = max(row.longest_prompt, round(sampled))
            if context is not None and longest > context:
                message = (
                    f"node '{row.node_id}': a prompt of {longest:,} tokens is longer "
                    f"than the context of '{name}', {context:,}"
                )
                yield self._finding("W029", message, "nodes", row.node_id, "prompt")

    def _too_dear(self, plan: InputPlan) -> Iterator[Finding]:
        """W030: no run can keep within the budget of one run."""
        budget = self.settings.models.budgets.run.usd
        least = plan.per_line.usd.least
        if budget is not None and least > budget:
            message = (
                f"the budget of one run, {dollars(budget)}, is below what a run costs at least, "
                f"{dollars(least)}"
            )
            yield self._finding("W030", message, hint="raise models.budgets.run.usd")

    def _never_again(self, plan: InputPlan) -> Iterator[Finding]:
        """W031: a `cache` that no line can hit, as all prompts differ."""
        for row in plan.nodes:
            node = self.graph.nodes[row.node_id]
            if not isinstance(node, LlmNode) or not is_cached(self.graph, node):
                continue
            if plan.lines > 1 and row.node_id in plan.differing:
                message = f"node '{row.node_id}': no two of the {plan.lines:,} lines have a prompt"
                yield self._finding(
                    "W031", f"{message} in common, so `cache` has no effect", "nodes", row.node_id
                )

    def _finding(
        self, code: str, message: str, *path: str | int, hint: str | None = None
    ) -> Finding:
        return self.agent.document.finding(code, message, *path, hint=hint)
