"""The `approval` node: asks a person to choose; the answer picks the route."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.schema import ApprovalNode
from sleipnir.scheduler.runs.answers import nearest_option
from sleipnir.worker.executors.updates import require_rendered, update_state
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked, Outcome, Wrote


def run_approval(visit: Visit[ApprovalNode]) -> Outcome:
    """Ask the question; with the answer choose the route.

    Raises:
        NodeFailed: R001, if the question refers to something that is not in the state.
    """
    node = visit.node
    # Render first, so that an answer submitted in advance does not hide an error in the question.
    text = require_rendered(node.question, "question", visit)
    if visit.resumed_with is None:
        options = tuple(dict.fromkeys(node.options))
        return Asked("approval", text, options, may_be_linked=node.answer_link)
    choice = nearest_option(node.options, visit.resumed_with["answer"])
    writes: dict[str, Any] = {}
    update_state(visit, writes, {"choice": choice})
    return Wrote(writes, (node.routes.get(choice, node.on_other),))
