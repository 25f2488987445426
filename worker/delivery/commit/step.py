"""Commits a visit of a step; the only visit, or the last of several, also advances the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.normal_agent import is_normal
from sleipnir.scheduler.errors import StateTooLarge
from sleipnir.scheduler.runs.events import Departure, StepCommitted
from sleipnir.scheduler.runs.failures import NO_FAILURES, StepFailures
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import NO_USAGE, Failure, Usage
from sleipnir.scheduler.runs.plan import Branch, Plan, plan_step
from sleipnir.worker.delivery.commit import kept
from sleipnir.worker.delivery.commit.branch import branch_of, usage_of
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.delivery.handover import handover, taker_of
from sleipnir.worker.delivery.log_records import log_end, log_step
from sleipnir.worker.sandbox.workdir import forget_scratch
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Ended, Failed, Wrote


def finish(delivery: Delivery, outcome: Wrote | Ended | Failed) -> None:
    """Commit a visit that has finished."""
    _finish(delivery, branch_of(delivery, outcome), usage_of(outcome))


def discard(delivery: Delivery) -> None:
    """Commit a visit of a step that has failed for good, dropping its writes."""
    _finish(delivery, Branch({}, discarded=True), NO_USAGE)


def _finish(delivery: Delivery, branch: Branch, usage: Usage) -> None:
    visit = delivery.visit
    if delivery.begun.width == 1:
        _advance(delivery, {visit.node_id: branch}, _reducer_texts(visit), usage)
        return
    left, handover.message = delivery.services.store.visits.stage(
        delivery.lease, visit.step, branch, usage=usage, queues=handover.queues
    )
    if left == 0:
        advance(delivery)


def advance(delivery: Delivery) -> None:
    """Advance a step whose visits are all staged."""
    reducer_keys = sorted(delivery.visit.graph.reducers)
    visits = delivery.services.store.visits
    branches, current = visits.read_step(delivery.lease.run_id, reducer_keys)
    _advance(delivery, branches, current, NO_USAGE)


def _advance(
    delivery: Delivery, branches: Mapping[str, Branch], current: Mapping[str, str], usage: Usage
) -> None:
    most = delivery.services.settings.max_branches
    plan = plan_step(delivery.visit.graph, branches, current, most)
    try:
        _write(delivery, plan, branches, usage)
    except StateTooLarge:
        limit = delivery.services.settings.state_limit_bytes
        _write(delivery, Plan({}, failure=_too_large(plan, limit)), branches, usage)


def _too_large(plan: Plan, limit_bytes: int) -> Failure:
    largest = max(plan.writes, key=lambda key: len(plan.writes[key]))
    message = (
        f"the state would exceed {limit_bytes} bytes (state_limit_bytes); "
        f"the largest write of this step is '{largest}'"
    )
    return Failure("R021", message, None)


def _write(delivery: Delivery, plan: Plan, branches: Mapping[str, Branch], usage: Usage) -> None:
    services, visit = delivery.services, delivery.visit
    settings = visit.graph.settings
    taker = taker_of(delivery, _following(visit, plan))
    advanced = services.store.visits.advance(
        delivery.lease,
        visit.step,
        plan,
        cap=settings.max_loop_iterations,
        window=settings.max_concurrency,
        nodes={node_id: branch.timing for node_id, branch in sorted(branches.items())},
        event=_event(visit, plan, branches),
        failures=_failures(plan, branches),
        usage=usage,
        first=kept.taken(delivery),
        taker=taker,
    )
    handover.take(advanced, taker)
    log_step(visit, branches, plan)
    if advanced.status != "running":
        code = None if plan.failure is None else plan.failure.code
        log_end(visit, advanced.status, code, services.store)
        forget_scratch(services.scratch, visit.run_id)


def _following(visit: Visit[Any], plan: Plan) -> VisitId | None:
    """Return the next visit if there is only one, and if it reads what any node does."""
    if len(plan.frontier) != 1 or is_normal(visit.graph):
        return None
    return VisitId.of(visit.step + 1, plan.frontier[0])


def _failures(plan: Plan, branches: Mapping[str, Branch]) -> StepFailures:
    """Return the failures that the run tolerates; none of a step that has failed."""
    if plan.failure is not None:
        return NO_FAILURES
    return sum((each.failures for each in branches.values() if each.failures), NO_FAILURES)


def _event(visit: Visit[Any], plan: Plan, branches: Mapping[str, Branch]) -> StepCommitted:
    nodes = visit.graph.nodes
    departures = [
        Departure(node_id, branch.targets, branch.tolerated, _route(branch))
        for node_id, branch in sorted(branches.items())
        if not branch.failure and not branch.ended
    ]
    warnings = [
        warning
        for branch in branches.values()
        for warning in (branch.timing or {}).get("warnings", ())
    ]
    return StepCommitted(
        visit.step,
        departures=tuple(departures),
        next=tuple((node_id, nodes[node_id].type) for node_id in plan.frontier),
        dropped=plan.dropped,
        warnings=tuple(warnings),
    )


def _reducer_texts(visit: Visit[Any]) -> dict[str, str]:
    texts = {key: visit.state.text(key) for key in visit.graph.reducers}
    return {key: text for key, text in texts.items() if text is not None}


def _route(branch: Branch) -> tuple[int, str] | None:
    """Return number and label of the route that the node's conditions chose, if it has some."""
    route = (branch.timing or {}).get("route")
    return None if route is None else (route["index"], route["label"])
