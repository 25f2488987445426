"""Makes the plan of an agent from its files, for the first states of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.finding import Finding, in_order
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.state import PROMPT_KEY, decode
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.client.preparation import Preparation, PreparedAgent
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.runs.submit import Request, new_run
from sleipnir.worker.plan.advice import Advice
from sleipnir.worker.plan.document import InputPlan, plan_of
from sleipnir.worker.plan.rows import Planner
from sleipnir.worker.plan.sample import LineSample

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

States = Iterable[tuple[int, Mapping[str, Any]]]  # the number of each line, and its first state


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What runs of an agent do at least and at most, and what is odd about that."""

    agent: PreparedAgent
    version: str
    bounds: InputPlan
    advice: Advice
    findings: tuple[Finding, ...]
    unpriced: tuple[str, ...]  # models whose price is not known

    def with_sample(self, sample: LineSample) -> AgentPlan:
        """Return the plan with what only lines that were run tell of prompts."""
        advice = self.advice.of(self.bounds, sample)
        return replace(self, findings=in_order((*self.agent.warnings, *advice)))

    def to_json(self, sample: LineSample | None = None, time_s: float | None = None) -> Any:
        """Return what `plan --json` prints."""
        return {
            "agent": self.agent.name,
            "version": self.version,
            **self.bounds.to_json(sample),
            "time_s": time_s,
            "findings": [each.to_json() for each in self.findings],
        }


@dataclass(frozen=True, slots=True)
class PlannedAgent:
    """An agent that can be planned: its files are read, and nothing is stored."""

    prepared: PreparedAgent
    version: str
    settings: Settings
    search: AgentSearch

    @property
    def directory(self) -> Path:
        return self.prepared.source.directory

    def plan(
        self,
        states: States,
        stored: Callable[[str], Path | None] = lambda _digest: None,
        *,
        economy: bool = False,
    ) -> AgentPlan:
        """Return the plan for runs with these first states; there is at least one.

        Args:
            stored: returns the path of a file that lines name by its digest, if it is known.
            economy: whether calls wait for batches of their provider.
        """
        planner = Planner(self.settings, self.search, stored, economy=economy)
        graph = self.prepared.graph
        bounds = plan_of(planner.rows_of(self.directory, graph), states)
        advice = Advice(self.prepared.source, graph, self.settings, planner.models)
        findings = in_order((*self.prepared.warnings, *advice.of(bounds)))
        unpriced = tuple(planner.models.unpriced)
        return AgentPlan(self.prepared, self.version, bounds, advice, findings, unpriced)


def planned_agent(
    settings: Settings,
    search: AgentSearch,
    reference: str,
    client: Client | None = None,
) -> PlannedAgent:
    """Return the agent that a reference names.

    Args:
        client: it stores the agent, for lines that are run; without it nothing is stored.

    Raises:
        InvalidAgent, AgentNotFound, SubmissionRefused: it cannot be submitted.
    """
    packed: dict[str, bytes] = {}
    if client is not None:
        prepared, bundles = client.prepare(reference), client.store.bundles
        version = AgentVersions(bundles).of(prepared.digest, prepared.agents)
    else:
        prepared = Preparation(settings, search, packed.__setitem__).prepare(reference)
        version = AgentVersions(packed).of(prepared.digest, prepared.agents)
    assert version is not None, "its files have just been packed"
    return PlannedAgent(prepared, version, settings, search)


def first_state(agent: PreparedAgent, request: Request) -> Mapping[str, Any]:
    """Return the first state of a run."""
    run = new_run(agent.graph, agent.digest, request, agent=agent.name, agents=agent.agents)
    return {key: decode(text) for key, text in run.state.items()}


def state_of_any_run(agent: PreparedAgent, request: Request) -> Mapping[str, Any]:
    """Return what is known of the first state of a run whose prompt is not."""
    state = first_state(agent, request)
    return {key: value for key, value in state.items() if key != PROMPT_KEY}
