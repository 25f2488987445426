"""What the newest runs of an agent did, beside what its plan says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.worker.plan.making import AgentPlan, planned_agent, state_of_any_run
from sleipnir.worker.plan.sample import LineSample, figures_of

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.plans import (
        AgentPlanDocument,
        PlanDocument,
        SampledRunsDocument,
    )

_MOST_RUNS: Final = 30
# Runs of other versions, and those that are open, are passed over.
_LOOKED_AT: Final = 200


def plan_of_agent(client: Client, name: str) -> AgentPlan:
    """Return the plan for any one run of an agent, as the command does without an input.

    Raises:
        InvalidAgent, AgentNotFound, SubmissionRefused: it cannot be submitted.
    """
    agent = planned_agent(client.store.settings, client.search, name)
    return agent.plan([(1, state_of_any_run(agent.prepared, Request()))])


def agent_plan_document(client: Client, plan: AgentPlan) -> AgentPlanDocument:
    """Return a plan with what the newest runs of its version did."""
    planned: PlanDocument = plan.to_json()
    return {**planned, "recent": _recent(client, plan)}


def _recent(client: Client, plan: AgentPlan) -> SampledRunsDocument | None:
    wanted = RunFilter(statuses=FINAL, agents=(plan.agent.name,))
    rows = client.queries.list_runs(wanted, _LOOKED_AT).entries
    run_ids = [row.run_id for row in rows]
    found = zip(run_ids, client.queries.summaries(run_ids), strict=True)
    same = [run_id for run_id, each in found if each and each.digest == plan.agent.digest]
    chosen = same[:_MOST_RUNS]
    pairs = zip(client.queries.runs(chosen), client.queries.histories(chosen), strict=True)
    figures = [figures_of(run, history) for run, history in pairs if run is not None]
    if not figures:
        return None
    sample = LineSample("", 0, dict(enumerate(figures)))
    document: SampledRunsDocument = sample.figures_json(row.node_id for row in plan.bounds.nodes)
    return document
