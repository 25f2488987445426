"""One node visit, from its message to the next one: begin, execute, commit, advance, enqueue.

The transitions enqueue what follows themselves (see scheduler/store/lua), so a linear visit costs
two round trips: begin, and one that commits, advances and enqueues.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any

from redis.exceptions import RedisError

from sleipnir.graphs.errors import BundleError, NodeFailed, TextTooLong
from sleipnir.graphs.schema import AgentNode, InputNode, LlmNode, MapNode, RagNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.config.secrets import hidden
from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.runs.events import Event, TextStreamed
from sleipnir.scheduler.runs.model import NO_USAGE, Begun, Failure, Lease, Usage
from sleipnir.scheduler.store.keys import parse_visit_id
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.delivery.bundle_cache import UnpackedAgent
from sleipnir.worker.delivery.commit import Commit
from sleipnir.worker.delivery.isolation import LOST_IN_COMPANY
from sleipnir.worker.delivery.log_records import log_begin
from sleipnir.worker.delivery.run_log import head_and_tail
from sleipnir.worker.executors import EXECUTORS
from sleipnir.worker.sandbox.workdir import workdir_of
from sleipnir.worker.services import Runtime
from sleipnir.worker.visit.cancellation import Cancellation
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Failed, Outcome

logger = logging.getLogger(__name__)

# The scheduler ends overdue runs twice a second.
_UNTIL_JUDGED_S = 1.0

# Of what a model says within a tenth of a second; few say more than some words.
_SPOKEN_BYTES = 16 * 1024

_NEED_NEXT = (AgentNode, LlmNode, InputNode, RagNode, MapNode)


def run_visit(runtime: Runtime, run_id: str, visit_id: str, digest: str) -> None:
    """Run one node visit. Safe to call twice with the same message."""
    deliver(runtime, Lease(run_id, visit_id, runtime.leases.new_token()), digest)


def deliver(runtime: Runtime, lease: Lease, digest: str) -> None:
    """Run the visit of a lease that is to be taken, or was taken with the same token."""
    try:
        agent = runtime.agents.get(digest)
    except BundleError as error:
        give_up(runtime, lease, error)
        return
    try:
        begun = begin(runtime, lease, agent)
        if runtime.leases.closed:
            runtime.store.visits.requeue(lease)
            return
        with runtime.leases.holding(lease) as cancelled:
            if runtime.isolation is not None and begun.tries > LOST_IN_COMPANY:
                runtime.isolation.execute(lease, digest, cancelled, staged=begun.staged)
                return
            visit = make_visit(runtime, lease, agent, begun, cancelled)
            commit = Commit(runtime, lease, visit, begun)
            log_begin(visit)
            if begun.staged:
                commit.advance()
                return
            outcome = execute(visit)
            if is_late(visit):
                # Its run is over; or has got more time meanwhile, and another try may use that.
                runtime.store.visits.requeue(lease, _UNTIL_JUDGED_S)
            else:
                settle(commit, visit, outcome)
    except TransitionRefused as refusal:
        # Done, parked, in other hands, or over: this message has nothing to say.
        logger.debug("%s %s dropped: %s", lease.run_id, lease.visit, refusal)
    except RedisError:
        raise  # not the visit's fault: its timer brings it back
    except Exception as error:
        # Left alone it would look as if its workers had died.
        logger.exception("run %s: visit %s", lease.run_id, lease.visit)
        text = f"internal error at visit '{lease.visit}': {hidden(repr(error))}"
        failure = Failure("R023", text, parse_visit_id(lease.visit)[1])
        runtime.store.runs.close(lease.run_id, "failed", failure)


def begin(runtime: Runtime, lease: Lease, agent: UnpackedAgent) -> Begun:
    """Take the visit's lease and read the part of the state its node needs."""
    node_id = agent.executed_node(lease.visit)
    return runtime.store.visits.begin(lease, agent.keys_for(node_id))


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


def execute(visit: Visit[Any]) -> Outcome:
    """Run the node's body: the agent's code runs here, and only here. Raises what Redis does."""
    node = visit.node
    if isinstance(node, _NEED_NEXT) and visit.index is None and not node.targets:
        return Failed("R002", f"{node.type} '{visit.node_id}' has no 'next'")
    try:
        return EXECUTORS[node.type](visit)
    except NodeFailed as failure:
        return Failed(failure.code, visit.mask(failure.message), failure.usage or NO_USAGE)
    except TextTooLong as error:
        return Failed("R021", f"node '{visit.node_id}': {error} (value_limit_bytes)")
    except (TransitionRefused, RedisError):
        raise  # while recording a turn: the visit is not ours any more, or comes back
    except Exception as error:
        logger.exception("run %s: node %s", visit.run_id, visit.node_id)
        return _internal_error(visit, error)


def is_late(visit: Visit[Any]) -> bool:
    """Whether the limit of the visit's run has passed, as far as is known here."""
    return visit.run_ends_at is not None and monotonic() >= visit.run_ends_at


def settle(commit: Commit, visit: Visit[Any], outcome: Outcome) -> None:
    """Make the outcome count; one that cannot be written down fails the run at once."""
    try:
        commit(outcome)
    except (TransitionRefused, RedisError):
        raise  # not the outcome's fault: the visit's timer brings it back
    except Exception as error:
        logger.exception("run %s: node %s", visit.run_id, visit.node_id)
        commit(_internal_error(visit, error))


def _internal_error(visit: Visit[Any], error: Exception) -> Failed:
    reason = visit.mask(repr(error))
    return Failed("R023", f"internal error in node '{visit.node_id}': {reason}")


def give_up(runtime: Runtime, lease: Lease, error: BundleError) -> None:
    """The agent cannot be had: no visit of this run will ever work."""
    logger.error("run %s: %s", lease.run_id, error)
    try:
        runtime.store.visits.begin(lease, ())
    except TransitionRefused:
        return
    runtime.store.runs.close(
        lease.run_id, "failed", Failure("R023", f"the agent cannot be loaded: {error}", None)
    )


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
