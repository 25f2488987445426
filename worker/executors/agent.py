"""The `agent` node: runs another agent as a child run and uses its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import AgentNode
from sleipnir.scheduler.runs.failures import is_of_budget
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.agents.texts import members_section
from sleipnir.worker.conversation.structured_output import ExtractionFailed, Unfit, accept, extract
from sleipnir.worker.executors.attempts import next_attempt
from sleipnir.worker.executors.updates import (
    merged_reply,
    require_rendered,
    require_value,
    update_state,
)
from sleipnir.worker.llm.caller import MustWait
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.retries import is_transient
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Deferred, Outcome, Spawned, Wrote

# What `fallback` catches; not what exceeds a size, nor a refusal by a budget.
_CAUGHT = frozenset({"R001", "R015", "R016", "R017", "R018"})


def run_agent(visit: Visit[AgentNode]) -> Outcome:
    """Start the child; once it has ended, extract what the schema asks for and go on.

    Raises:
        NodeFailed: if there is no `fallback`: R001 for a template, R015 if the child could not
            start or did not succeed, R016 on timeout, R017 if it would be nested too deep, R018 if
            no output conforms to the schema.
    """
    child = visit.resumed_with
    try:
        if child is None:
            return _start(visit)
        if child["status"] == "succeeded":
            return _finish(visit, str(child["output"]), child.get("value"))
    except NodeFailed as failure:
        return _after_failure(visit, failure)
    failed = _failure_of(visit, child)
    again = next_attempt(visit, failed.message) if _may_pass(child) else None
    return again or _after_failure(visit, failed)


def _start(visit: Visit[AgentNode]) -> Spawned:
    node = visit.node
    prompt = require_rendered(node.prompt, "prompt", visit)
    inputs = {
        key: require_value(template, f"inputs.{key}", visit)
        for key, template in (node.inputs or {}).items()
    }
    joined = visit.services.team.joined(visit.graph) if node.teammates else None
    if joined is not None:
        prompt = f"{prompt}\n\n{members_section(joined)}"
    child = visit.services.children.prepare(node.agent, prompt, inputs, joined)
    # A graph reads no messages; they stay for agents that follow in the same item.
    reads_as = joined.me.visit if joined is not None and child.context.converses else ""
    return Spawned(child, node.limit_s, reads_as)


def _finish(visit: Visit[AgentNode], text: str, value: str | None) -> Wrote | Deferred:
    """Go on with what the child has returned; `value` is JSON text, if its end has one."""
    node = visit.node
    output: Any = text if value is None else json.loads(value)
    usage = NO_USAGE
    writes: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    if node.output_schema is not None:
        try:
            output, usage = _extracted(visit, node.output_schema, text, value)
        except MustWait as wait:
            return Deferred(wait.delay_s, wait.reason, wait.for_person)
        writes, warnings = merged_reply(visit, output)
    update_state(visit, writes, {"output": output})
    return Wrote(writes, output=output, usage=usage, warnings=warnings)


def _after_failure(visit: Visit[AgentNode], failure: NodeFailed) -> Wrote:
    """Go to `fallback` with what the node failed of; it fails if that does not catch it."""
    fallback, code = visit.node.fallback, failure.code
    if fallback is None or code not in _CAUGHT or is_of_budget(code, failure.message):
        raise failure
    reason = visit.mask(failure.message)
    output = f"Agent node failed: {reason}"
    writes: dict[str, Any] = {}
    update_state(visit, writes, {"output": output})
    usage = failure.usage or NO_USAGE
    return Wrote(writes, (fallback,), output, failure=reason, failure_code=code, usage=usage)


def _extracted(
    visit: Visit[AgentNode], schema: dict[str, Any], text: str, value: str | None
) -> tuple[Any, Usage]:
    """Extract from the child's value or output what the schema asks for; return it with usage."""
    limit_s = visit.limits.check_s
    calls = ModelCalls(visit, visit.graph.model or visit.services.models.default or "")
    try:
        if value is not None:
            with suppress(Unfit):
                return accept(value, schema, limit_s), calls.usage
        output = extract(schema, text, calls.ask_extractor, limit_s=limit_s)
    except ExtractionFailed as error:
        message = f"agent '{visit.node.agent}': {error}"
        raise NodeFailed("R018", message, calls.usage) from error
    return output, calls.usage


def _failure_of(visit: Visit[AgentNode], child: Mapping[str, str]) -> NodeFailed:
    agent, run = f"agent '{visit.node.agent}'", f"(run {child['run_id']})"
    if child["status"] == "expired":
        return NodeFailed("R016", f"{agent} took longer than {visit.node.timeout:g}s {run}")
    error = _error_of(child)
    quoted = f": {error['code']}: {error['message']}" if error else ""
    return NodeFailed("R015", f"{agent} {child['status'].replace('_', ' ')} {run}{quoted}")


def _may_pass(child: Mapping[str, str]) -> bool:
    """Return whether another child may succeed; names and ids in the failure may hold any word."""
    if child["status"] in ("expired", "timed_out"):
        return True
    error = _error_of(child) if child["status"] == "failed" else None
    return error is not None and (
        is_transient(error["message"]) and not is_of_budget(error["code"], error["message"])
    )


def _error_of(child: Mapping[str, str]) -> dict[str, str] | None:
    found: dict[str, str] | None = json.loads(child["error"] or "null")
    return found
