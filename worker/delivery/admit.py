"""Admits a visit that this worker has begun: makes what its executor gets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from sleipnir.graphs.schema import MapNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.events import Event, TextStreamed
from sleipnir.scheduler.runs.model import Begun, Lease, Usage
from sleipnir.scheduler.store.keys import parse_visit_id
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.delivery.bundle_cache import UnpackedAgent
from sleipnir.worker.delivery.commit.step import advance
from sleipnir.worker.delivery.delivery import Delivery, DeliveryOver
from sleipnir.worker.delivery.isolation import LOST_IN_COMPANY
from sleipnir.worker.delivery.log_records import log_begin
from sleipnir.worker.delivery.run_log import head_and_tail
from sleipnir.worker.sandbox.workdir import workdir_of
from sleipnir.worker.services import Runtime
from sleipnir.worker.visit.cancellation import Cancellation
from sleipnir.worker.visit.context import Visit

# Of what a model says within a tenth of a second; few say more than some words.
_SPOKEN_BYTES = 16 * 1024


def admit(
    runtime: Runtime, lease: Lease, agent: UnpackedAgent, begun: Begun, cancelled: Cancellation
) -> Delivery:
    """What is executed here: not what needs a process of its own, or has been executed before."""
    if runtime.isolation is not None and begun.tries > LOST_IN_COMPANY:
        runtime.isolation.execute(lease, agent.digest, cancelled, staged=begun.staged)
        raise DeliveryOver("a process of its own has executed it")
    visit = make_visit(runtime, lease, agent, begun, cancelled)
    delivery = Delivery(runtime, lease, begun, visit)
    log_begin(visit)
    if begun.staged:
        advance(delivery)
        raise DeliveryOver("it was staged before, and its step is advanced")
    return delivery


def make_visit(
    runtime: Runtime,
    lease: Lease,
    agent: UnpackedAgent,
    begun: Begun,
    cancelled: Cancellation,
) -> Visit[Any]:
    """What the executor gets."""
    step, node_id, index = parse_visit_id(lease.visit)
    state = begun.state
    if index is not None:
        map_node = agent.graph.nodes[node_id]
        assert isinstance(map_node, MapNode)
        node_id = map_node.branch
        if begun.item is not None:
            state = state.extended({map_node.item_name: begun.item})
    visit: Visit[Any] = Visit(
        run_id=lease.run_id,
        step=step,
        node_id=node_id,
        node=agent.graph.nodes[node_id],
        graph=agent.graph,
        directory=agent.directory,
        state=state,
        idempotency_key=f"{lease.run_id}:{lease.visit}",
        index=index,
        attempt=begun.attempt,
        age_s=begun.age_s,
        resumed_with=_resumption(runtime.store, lease, node_id, begun),
        context=begun.context,
        variables=begun.context.variables,
        secrets=(
            *(begun.context.variables[name] for name in begun.context.secrets),
            *agent.secrets,
        ),
        default_model=runtime.settings.model,
        workdir=partial(workdir_of, begun.context.workdir, runtime.scratch, lease.run_id),
        limits=runtime.limits,
        cancelled=cancelled,
        narrate=partial(runtime.store.runs.narrate, lease.run_id),
        say=partial(_say, runtime.store, lease.run_id, node_id, index),
        fill_in=runtime.secrets.resolve,
        offer=partial(runtime.tools.offer, agent),
        recall=runtime.models.recall,
        ask_model=runtime.models.ask,
        turns=partial(_turns, runtime.store, lease, begun.turns),
        record=partial(_record, runtime.store, lease),
    )
    if begun.left_s is not None:
        visit.run_ends_at = visit.began_at + begun.left_s
    return visit


def _say(store: RunStore, run_id: str, node_id: str, index: int | None, text: str) -> None:
    text = head_and_tail(text, _SPOKEN_BYTES)
    # What nobody hears is no reason to lose the reply.
    with contextlib.suppress(RedisError):
        store.runs.stream(run_id, TextStreamed(node_id, index, text))


def _turns(store: RunStore, lease: Lease, count: int) -> list[dict[str, Any]]:
    return (
        list(map(json.loads, store.visits.read_turns(lease.run_id, lease.visit))) if count else []
    )


def _record(
    store: RunStore,
    lease: Lease,
    position: int,
    entry: Mapping[str, Any],
    event: Event | None,
    usage: Usage,
) -> None:
    store.visits.record_turn(lease, position, encode(entry), event=event, usage=usage)


def _resumption(store: RunStore, lease: Lease, node_id: str, begun: Begun) -> Any:
    """What the visit goes on with: an answer, a child's result, the results of a map."""
    if begun.payload == "collect":
        return store.parking.read_map(lease.run_id, lease.visit)
    if begun.payload:
        return json.loads(begun.payload)
    return _answer_ahead(begun.context.answers, node_id, begun.visit_number)


def _answer_ahead(
    answers: Mapping[str, list[str]], node_id: str, visit_number: int
) -> dict[str, str] | None:
    """The answer given at submission for this visit of a node: the n-th visit takes the n-th."""
    given = answers.get(node_id, ())
    return {"answer": given[visit_number - 1]} if 0 < visit_number <= len(given) else None
