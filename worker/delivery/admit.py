"""Admit a visit that this worker has begun: build what its executor gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any

from sleipnir.graphs.schema import BaseNode, MapNode
from sleipnir.graphs.state import Snapshot
from sleipnir.scheduler.process.logs import working_on
from sleipnir.scheduler.runs.model import Begun, Lease
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.delivery.child_runs import StoredChildren
from sleipnir.worker.delivery.commit.step import advance
from sleipnir.worker.delivery.delivery import Delivery, DeliveryOver
from sleipnir.worker.delivery.isolation import ISOLATED_AFTER_LOSSES
from sleipnir.worker.delivery.log_records import log_begin, log_fields
from sleipnir.worker.delivery.services import Services
from sleipnir.worker.delivery.team import StoredTeam
from sleipnir.worker.delivery.visit_services import StoredConversation, StoredNarration
from sleipnir.worker.visit.cancellation import Cancellation
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.exchanges import Exchanges
from sleipnir.worker.visit.loaded_agent import LoadedAgent
from sleipnir.worker.visit.outcome import NOT_IN_TIME
from sleipnir.worker.visit.run_log import RunLog
from sleipnir.worker.visit.services import VisitServices


def admit(
    services: Services, lease: Lease, agent: LoadedAgent, begun: Begun, cancelled: Cancellation
) -> Delivery:
    """Return the delivery to execute in this process; what is logged now says which it is.

    A visit that has lost several workers is executed in a process of its own instead, and one whose
    step is already staged is only advanced.

    Raises:
        DeliveryOver: in both of these cases, once that is done.
    """
    if services.isolation is not None and begun.tries > ISOLATED_AFTER_LOSSES:
        services.isolation.execute(lease, agent.digest, cancelled, staged=begun.staged)
        raise DeliveryOver("a process of its own has executed it")
    visit = make_visit(services, lease, agent, begun, cancelled)
    delivery = Delivery(services, lease, begun, visit)
    working_on.set(partial(log_fields, delivery))
    log_begin(visit)
    if begun.staged:
        advance(delivery)
        raise DeliveryOver("it was staged before, and its step is advanced")
    return delivery


def make_visit(
    services: Services,
    lease: Lease,
    agent: LoadedAgent,
    begun: Begun,
    cancelled: Cancellation,
) -> Visit[Any]:
    """Build the `Visit` that the executor gets."""
    step, node_id, index = lease.visit.step, lease.visit.node, lease.visit.item
    state = begun.state
    if index is not None:
        node_id = agent.executed_node(lease.visit)
        state = _of_item(agent.graph.nodes[lease.visit.node], begun)
    context, now = begun.context, monotonic()
    return Visit(
        run_id=lease.run_id,
        visit_id=lease.visit,
        step=step,
        node_id=node_id,
        node=agent.graph.nodes[node_id],
        agent=agent,
        state=state,
        context=context,
        services=_visit_services(services, lease, node_id, index, begun, agent.digest),
        limits=services.limits,
        scratch=services.scratch,
        cancelled=cancelled,
        item_index=index,
        attempt=begun.attempt,
        number=begun.visit_number,
        has_waited=begun.parked_ms > 0,
        age_s=begun.age_s,
        resumed_with=_resumption(services.store, lease, node_id, begun),
        arrived=begun.results,
        secrets=(*(context.variables[name] for name in context.secrets), *agent.secrets),
        began_at=now,
        run_ends_at=None if begun.left_s is None else now + begun.left_s,
    )


def _of_item(map_node: BaseNode, begun: Begun) -> Snapshot:
    """Return the state that an item sees: the run's, itself, and what it has written."""
    assert isinstance(map_node, MapNode)
    item = {} if begun.item is None else {map_node.item_name: begun.item}
    return begun.state.extended({**item, **begun.own})


def _visit_services(
    services: Services,
    lease: Lease,
    node_id: str,
    index: int | None,
    begun: Begun,
    digest: str,
) -> VisitServices:
    store, context = services.store, begun.context
    return VisitServices(
        models=services.models,
        tools=services.tools,
        conversation=StoredConversation(store.visits, lease, begun.turns),
        secrets=services.secrets,
        narration=StoredNarration(store.runs, lease.run_id, node_id, index),
        knowledge=services.knowledge,
        children=StoredChildren(services, lease, node_id, begun, digest),
        team=StoredTeam(services, lease, context),
        files=store.batches,
        run_log=RunLog(services.limits.log_bytes),
        exchanges=Exchanges(),
        calls=None if services.spans is None else services.spans.calls_of(lease, begun),
    )


def _resumption(store: RunStore, lease: Lease, node_id: str, begun: Begun) -> Any:
    """Return what the visit resumes with: an answer, a child's result or the results of a map."""
    if "map" in begun.results:
        return store.parking.read_map(lease.run_id, lease.visit)
    for call in ("question", "child"):
        if call in begun.results:
            text = begun.results[call]
            return json.loads(text) if text else {"answer": NOT_IN_TIME}
    return _answer_ahead(begun.context.answers, node_id, begun.visit_number)


def _answer_ahead(
    answers: Mapping[str, list[str]], node_id: str, visit_number: int
) -> dict[str, str] | None:
    """Return the answer submitted in advance for this visit: the n-th visit takes the n-th."""
    given = answers.get(node_id, ())
    return {"answer": given[visit_number - 1]} if 0 < visit_number <= len(given) else None
