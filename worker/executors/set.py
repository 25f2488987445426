"""The `set` node: computes values, without a process and without a call."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.expressions.errors import ExpressionFailed, NotSet
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.schema import SetNode
from sleipnir.worker.executors.updates import update_state
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Outcome, Wrote


def run_set(visit: Visit[SetNode]) -> Outcome:
    """Evaluate the values in file order, each seeing those before it, then the updates.

    Raises:
        NodeFailed: R024 for an expression without a value.
    """
    writes: dict[str, Any] = {}
    names = ChainMap[str, Any]({"visit": visit.number}, writes, visit.state)  # type: ignore[arg-type]
    for key, value in visit.node.values.items():
        writes[key] = _evaluated(visit, key, value, names) if isinstance(value, str) else value
    update_state(visit, writes)
    return Wrote(writes)


def _evaluated(visit: Visit[SetNode], key: str, text: str, names: ChainMap[str, Any]) -> Any:
    try:
        return parse(text).evaluate(names, value_bytes=visit.limits.value_bytes)
    except ExpressionFailed as failure:
        message = f"values.{key} of node '{visit.node_id}': {failure}"
        if isinstance(failure, NotSet) and text.strip() == failure.path:
            message += f"""; a constant text needs quotes of its own: '"{failure.path}"'"""
        raise NodeFailed("R024", message) from failure
