"""One turn of a normal agent: the model replies, its calls are carried out, the next turn follows.

The conversation is in the state (scheduler/runs/conversation/memory.py). While a turn is under way,
its reply and the results of its calls are in the visit's transcript, as those of an `llm` node are.
"""

from __future__ import annotations

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.worker.agents.compression import too_long
from sleipnir.worker.agents.turn import Turn
from sleipnir.worker.conversation.loop import Parked
from sleipnir.worker.executors.missing_knowledge import outcome_without
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.llm.caller import MustWait
from sleipnir.worker.llm.client import ModelCallFailed
from sleipnir.worker.llm.retries import is_repeatable
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Deferred, Outcome, Postponed


def run_turn(visit: Visit[TurnNode]) -> Outcome:
    """Execute the next turn of the conversation: open, ask, act or stop, commit.

    Raises:
        NodeFailed: R601 for the model, R602 for the instructions, R603 after too many turns, R604
            after too many that achieved nothing, R020 for the documents.
    """
    turn, output = Turn(visit), None
    try:
        turn.open()
        reply = turn.ask()
        if reply.calls:
            turn.act(reply)
        else:
            output = turn.stop(reply)
        return turn.commit(output)
    except Parked as parked:
        return turn.wait(parked)
    except ModelCallFailed as failure:
        return _after_failure(turn, failure)
    except KnowledgeFailed as failure:
        return outcome_without(visit, f"agent '{visit.graph.name}'", failure, turn.calls.usage)
    except MustWait as wait:
        return Deferred(wait.delay_s, visit.mask(wait.reason), wait.for_person)


def _after_failure(turn: Turn, failure: ModelCallFailed) -> Postponed:
    visit, usage = turn.calls.visit, turn.calls.usage
    reason = visit.mask(failure.message)
    if failure.kind == "too_long":
        raise NodeFailed("R601", too_long(visit, reason), usage)
    if not (is_repeatable(failure) and visit.attempt < visit.node.max_attempts):
        raise NodeFailed("R601", f"the model call failed: {reason}", usage)
    delay_s = visit.limits.model_backoff.pause_s(visit.attempt, failure.retry_after_s)
    return Postponed(delay_s, reason, usage)
