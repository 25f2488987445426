"""What runs of an agent will do and cost: GET /api/v1/agents/NAME/plan, and a tab of its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.views.submission import require_name
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.plan.recent import agent_plan_document, plan_of_agent
from sleipnir.worker.plan.table import amount_cells, count_text

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.plans import AgentPlanDocument


class PlanApi(MonitorHandler):
    """The plan of any one run of an agent."""

    async def get(self, name: str) -> None:
        self.give_json(masked_texts(await self.site.call(_document, self.site.client, name)))


def _document(client: Client, name: str) -> AgentPlanDocument:
    require_name(name)  # remote users must not choose which files are read
    return agent_plan_document(client, plan_of_agent(client, name))


def plan_of_page(client: Client, name: str) -> dict[str, Any]:
    """Return what the template shows of the plan of an agent that can be submitted."""
    plan = plan_of_agent(client, name)
    document = masked_texts(agent_plan_document(client, plan))
    recent = document["recent"]
    means = {each["id"]: each for each in recent["nodes"]} if recent else {}
    return {
        "plan": document,
        "unpriced": plan.unpriced,
        "per_run": amount_cells(plan.bounds.per_line),
        "planned_nodes": [
            (row.node_id, row.type, count_text(row.visits), *amount_cells(row.amounts))
            for row in plan.bounds.nodes
        ],
        "means": means,
    }
