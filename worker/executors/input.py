"""The `input` node: asks a person for text."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.input_condition import Condition, parse_validation
from sleipnir.graphs.schema import InputNode
from sleipnir.graphs.template import render_lenient
from sleipnir.worker.executors.updates import require_rendered, update_state
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked, Outcome, Wrote


def run_input(visit: Visit[InputNode]) -> Outcome:
    """Ask the question; go on with the answer, or with the default if it is empty.

    Raises:
        NodeFailed: R001 for a missing reference, R019 for an answer that fails the validation.
    """
    node = visit.node
    # Render first, so that an answer submitted in advance does not hide an error in the question.
    question = require_rendered(node.question, "question", visit)
    default = render_lenient(node.default or "", visit.state, limit=visit.limits.value_bytes)
    if visit.resumed_with is None:
        return Asked("input", question, default=default or None, validation=node.validation)
    text = visit.resumed_with["answer"]
    if text == "" and default:
        text = default
    elif node.validation is not None and not _condition(visit).accepts(text):
        raise NodeFailed(
            "R019",
            f"input '{visit.node_id}': the answer has {len(text)} characters, "
            f"which does not satisfy {node.validation}",
        )
    writes: dict[str, Any] = {}
    update_state(visit, writes, {"input": text})
    return Wrote(writes, output=text)


def _condition(visit: Visit[InputNode]) -> Condition:
    """Parse what the answer must satisfy; invalid only if the graph was not validated."""
    try:
        return parse_validation(visit.node.validation or "")
    except ValueError as error:
        raise NodeFailed("R019", f"input '{visit.node_id}': {error}") from error
