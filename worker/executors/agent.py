"""The `agent` node: runs another agent as a child run and uses its result."""

from __future__ import annotations

import json
from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import AgentNode
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.conversation.structured_output import ExtractionFailed, extract
from sleipnir.worker.executors.updates import merged_reply, require_rendered, update_state
from sleipnir.worker.llm.caller import MustWait
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Deferred, Outcome, Spawned, Wrote


def run_agent(visit: Visit[AgentNode]) -> Outcome:
    """Start the child; once it has ended, extract what the schema asks for and go on.

    Raises:
        NodeFailed: R001 for the prompt, R015 if the child did not succeed, R016 on timeout, R018 if
            no output conforms to the schema.
    """
    node = visit.node
    if visit.resumed_with is None:
        prompt = require_rendered(node.prompt, "prompt", visit)
        return Spawned(node.agent, prompt, node.limit_s)
    child = visit.resumed_with
    text = _result_of(visit, child)
    output: Any = text
    usage = NO_USAGE
    writes: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    if node.output_schema is not None:
        try:
            output, usage = _extracted(visit, node.output_schema, text)
        except MustWait as wait:
            return Deferred(wait.delay_s, wait.reason, wait.for_person)
        writes, warnings = merged_reply(visit, output)
    update_state(visit, writes, {"output": output})
    return Wrote(writes, output=output, usage=usage, warnings=warnings)


def _extracted(visit: Visit[AgentNode], schema: dict[str, Any], text: str) -> tuple[Any, Usage]:
    """Extract from the child's output what the schema asks for; return it with the usage."""
    calls = ModelCalls(visit, visit.graph.model or visit.services.models.default or "")
    try:
        output = extract(schema, text, calls.complete, limit_s=visit.limits.check_s)
    except ExtractionFailed as error:
        message = f"agent '{visit.node.agent}': {error}"
        raise NodeFailed("R018", message, calls.usage) from error
    return output, calls.usage


def _result_of(visit: Visit[AgentNode], child: dict[str, Any]) -> str:
    node = visit.node
    match child["status"]:
        case "succeeded":
            return str(child["output"])
        case "expired":
            raise NodeFailed(
                "R016",
                f"agent '{node.agent}' took longer than {node.timeout:g}s (run {child['run_id']})",
            )
        case status:
            raise NodeFailed(
                "R015",
                f"agent '{node.agent}' {status.replace('_', ' ')} (run {child['run_id']})"
                + _quoted(child["error"]),
            )


def _quoted(failure: str) -> str:
    if not failure:
        return ""
    found = json.loads(failure)
    return f": {found['code']}: {found['message']}"
