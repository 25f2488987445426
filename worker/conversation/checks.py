"""The checks of an `llm` node: what its model is told of an output that is not right.

The rounds of an attempt are turns of its conversation. They are the same for a worker that takes it
over, as the state and the recorded replies are.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import Any

from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.expressions.operators import type_name
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.schema import LlmNode
from sleipnir.graphs.template import render_lenient
from sleipnir.scheduler.runs.events import ReplyChecked
from sleipnir.worker.visit.context import Visit

# Of what checks say, in the narration and in a failure. Of what is masked before, the last
# characters are not shown: they might be a part of a secret.
_SHOWN_CHARACTERS = 1_000
_MASKED_CHARACTERS = 2_000


class CheckFailed(Exception):
    """An output is not right and the model is not asked again, or a check cannot be evaluated."""


def complaints(
    visit: Visit[LlmNode], output: Any, number: int, is_last_turn: bool
) -> Sequence[str]:
    """Return what the model is told of its output; nothing if it is right.

    Args:
        number: of the round, from 1.
        is_last_turn: whether the model cannot be asked again.

    Raises:
        CheckFailed: it is not right, and there is no further round; or a check has no value.
        TextTooLong: what is said is longer than a value may be.
    """
    names = ChainMap[str, Any]({"output": output, "round": number}, visit.state)  # type: ignore[arg-type]
    limit, node = visit.limits.value_bytes, visit.node
    said = [
        render_lenient(check.say, {"output": output}, visit.state, limit=limit)
        for place, check in enumerate(node.check, 1)
        if _applies(place, check.when, names, limit)
    ]
    if said and (is_last_turn or number > node.max_checks):
        raise CheckFailed(f"check failed: {_shown(visit, said)}")
    return said


def narrate(visit: Visit[LlmNode], number: int, said: Sequence[str]) -> None:
    """Tell those who follow the run what the model is told in a round."""
    event = ReplyChecked(visit.node_id, number, visit.node.max_checks, _shown(visit, said))
    visit.services.narration.narrate(event)


def _applies(place: int, when: str, names: ChainMap[str, Any], value_bytes: int) -> bool:
    try:
        value = parse(when).evaluate(names, value_bytes=value_bytes)
    except ExpressionFailed as failure:
        raise CheckFailed(f"check {place}: {failure}") from failure
    if not isinstance(value, bool):
        raise CheckFailed(f"check {place}: {type_name(value)}")
    return value


def _shown(visit: Visit[LlmNode], said: Sequence[str]) -> str:
    return visit.mask("; ".join(said)[:_MASKED_CHARACTERS])[:_SHOWN_CHARACTERS]
