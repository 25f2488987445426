"""Parks a visit, which then holds no worker, until an answer, a child, map items or a timer."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.graphs.schema import MapNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.runs.consent import GUARD
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    QuestionAsked,
    RetryScheduled,
    VisitDelayed,
)
from sleipnir.scheduler.runs.model import BUILD, QUESTION, Question, Wait, WaitMode
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.outcome import (
    Asked,
    AwaitedBuild,
    Batched,
    ChildEnd,
    Deferred,
    FreePlace,
    Mapped,
    Postponed,
    Spawned,
)

# A build that was cancelled or killed releases no claim; then one of those who wait takes it.
_BUILD_CHECKED_AFTER_S = 30.0


def wait(
    delivery: Delivery, *things: Asked | ChildEnd | FreePlace, known: Sequence[str] = ()
) -> None:
    """Ask people questions, and park until their answers, ends of children or a free place.

    Args:
        known: calls that have their results; their rows are dropped.
    """
    waits, events, turn = [], [], ""
    mode: WaitMode = "all"
    for order, each in enumerate(things):
        if isinstance(each, ChildEnd):
            waits.append(Wait(each.call, "child", each.allowed_s, each.run_id))
            continue
        if isinstance(each, FreePlace):
            waits.append(Wait(each.call, "place", detail=str(each.most)))
            mode = "first"
            continue
        question = _question(delivery, each, order)
        waits.append(wait_for(question))
        events.append(
            QuestionAsked(question.node, question.text, question.options, question.default)
        )
        turn = encode(each.turn) if each.turn is not None else turn
    for other in events[:-1]:  # `park` can carry only the last event
        delivery.visit.services.narration.narrate(other)
    event = events[-1] if events else None
    # Answers of people that the conversation has recorded by now.
    consents = (call for call in delivery.begun.results if call.startswith(GUARD))
    parking = delivery.services.store.parking
    used = (*known, *consents)
    parking.park(delivery.lease, waits, mode=mode, used=used, event=event, turn=turn)


def _question(delivery: Delivery, asked: Asked, order: int) -> Question:
    visit, begun = delivery.visit, delivery.begun
    is_of_node = asked.call == QUESTION or asked.guarded_call is not None
    return Question(
        run_id=visit.run_id,
        root_run_id=begun.context.root or visit.run_id,
        agent=visit.graph.name,
        visit=delivery.lease.visit,
        node=visit.node_id if is_of_node else asked.call.partition("/")[0],
        visit_number=begun.visit_number,
        kind=asked.kind,
        text=visit.mask(asked.text),
        options=asked.options,
        default=asked.default,
        validation=asked.validation,
        call=asked.call,
        allowed_s=asked.allowed_s,
        order=order,
        guarded_call=asked.guarded_call,
        user=begun.context.user,
        may_be_linked=asked.may_be_linked,
    )


def spawn(delivery: Delivery, spawned: Spawned) -> None:
    """Start a child run and park until it ends."""
    child = spawned.child
    event = ChildStarted(delivery.visit.node_id, child.agent, child.run_id)
    delivery.services.store.parking.spawn(
        delivery.lease, child, spawned.timeout_s, member=spawned.member, event=event
    )


def open_map(delivery: Delivery, mapped: Mapped) -> None:
    """Start the first invocations of a map, and park until the last one is done."""
    visit, node = delivery.visit, delivery.visit.node
    assert isinstance(node, MapNode)
    items = [encode(item) for item in mapped.items]
    others = (each for each in visit.agent.chain_of(visit.node_id) if each != node.branch)
    delivery.services.store.parking.open_map(
        delivery.lease,
        node.branch,
        mapped.window,
        items,
        chain="".join(f" {each}" for each in others),
    )


def postpone(delivery: Delivery, postponed: Postponed) -> None:
    """Park until the next attempt."""
    visit, usage = delivery.visit, postponed.usage
    event = RetryScheduled(
        visit.node_id,
        attempt=visit.attempt + 1,
        of=visit.graph.attempts_of(visit.node),
        delay_s=postponed.delay_s,
        reason=postponed.reason,
    )
    turn = encode({"attempt": visit.attempt, "usage": usage.to_list()})
    delivery.services.store.parking.postpone(
        delivery.lease,
        postponed.delay_s,
        used=tuple(delivery.begun.results),  # the next attempt opens rows of its own
        event=event,
        turn=turn,
        usage=usage,
    )


def join(delivery: Delivery, batched: Batched) -> None:
    """Park until a batch of the provider has the reply to a request."""
    request = batched.request
    event = VisitDelayed(delivery.visit.node_id, 0, f"provider batch of {request.collection}")
    try:
        delivery.services.store.requests.join(delivery.lease, request, event)
    except TransitionRefused:
        batched.abandon(request)
        raise


def defer(delivery: Delivery, deferred: Deferred | AwaitedBuild) -> None:
    """Park in the middle of this attempt, because a limit or the build by another run delays it."""
    node = delivery.visit.node_id
    if isinstance(deferred, AwaitedBuild):
        event = VisitDelayed(node, 0, deferred.reason)
        rest = Wait(BUILD, "build", _BUILD_CHECKED_AFTER_S, deferred.claim)
        delivery.services.store.parking.park(delivery.lease, [rest], event=event)
        return
    event = VisitDelayed(node, deferred.delay_s, deferred.reason, deferred.for_person)
    delivery.services.store.parking.postpone(delivery.lease, deferred.delay_s, event=event)
