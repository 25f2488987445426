"""The `llm` node: a conversation, its structured output, and the handling of failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sleipnir.graphs.errors import MissingReference, NodeFailed
from sleipnir.graphs.normal_agent import ESCALATION_TIMEOUT_S
from sleipnir.graphs.schema import LlmNode
from sleipnir.graphs.skills import choice_of
from sleipnir.graphs.state import decode, encode
from sleipnir.graphs.template import render_strict
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.loop_check import bounds_at
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.worker.agents.skills import Skills
from sleipnir.worker.conversation.loop import IterationsExhausted, Parked, converse
from sleipnir.worker.conversation.opening import opening
from sleipnir.worker.conversation.structured_output import (
    ExtractionFailed,
    extract,
    reply_schema,
)
from sleipnir.worker.conversation.tool_set import NO_TOOLS, Toolset
from sleipnir.worker.executors.updates import merged_reply, update_state
from sleipnir.worker.llm.attachments import DIGEST
from sleipnir.worker.llm.caller import InBatch, MustWait
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.client import Message, ModelCallFailed, Reply
from sleipnir.worker.llm.retries import is_repeatable
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Batched, Deferred, Outcome, Postponed, Wrote

# Models of few graphs start agents, and few nodes have files or checks.
with lazy_imports():
    from sleipnir.worker.agents import node_children
    from sleipnir.worker.conversation import attaching, checks


@dataclass
class _LlmFailed(Exception):
    """This try of the node failed; further tries and its fallback are still possible."""

    reason: str
    repeatable: bool = False  # whether another try may help
    retry_after_s: float | None = None

    def to_json(self) -> str:
        return encode([self.reason, self.repeatable, self.retry_after_s])


def run_llm(visit: Visit[LlmNode]) -> Outcome:
    """Converse with the model. A failure is postponed to another attempt, or else tolerated.

    Raises:
        NodeFailed: R014, if a failure has neither `fallback` nor `next` to go to, or is not
            tolerated.
    """
    node, graph = visit.node, visit.graph
    calls = ModelCalls(
        visit,
        node.model or graph.model or visit.services.models.default or "",
        graph.request_settings(node),
        accepts_cut=node.output_schema is None and (node.on_cut or graph.on_cut) == "accept",
        cut_remedy="raise max_tokens",
        schema=reply_schema(visit.node_id, node, graph),
        timeout_s=node.limit_s,
        economy=_economy(visit),
    )
    toolset = visit.services.tools.resolve(visit) if graph.listed_tools(node) else NO_TOOLS
    children = node_children.NodeChildren(calls) if graph.offers_agents(node) else None
    skills = Skills(visit, choice_of(node, graph))
    toolset = replace(
        toolset.with_tools(skills.tools()),
        # In a child run the root's model is asked too, and may have a better answer.
        consent_within_s=ESCALATION_TIMEOUT_S if visit.context.depth else None,
    )
    if children is not None:
        toolset = children.offered(toolset)
    try:
        output = _output(visit, calls, toolset, skills, children)
    except _LlmFailed as failure:
        if children is not None:
            children.end(failure.to_json())
        outcome = _after_failure(visit, calls, failure)
        # The missing functions may be why it failed.
        if isinstance(outcome, Wrote):
            return replace(outcome, warnings=toolset.warnings)
        return outcome
    except Parked as parked:
        awaited = parked.outcome
        return awaited if children is None else children.within_limit(awaited)
    except InBatch as waiting:
        return Batched(waiting.request, visit.services.models.batched.abandon)
    except MustWait as wait:
        delay_s = _within_limit(calls, wait.delay_s)
        return Deferred(delay_s, visit.mask(wait.reason), wait.for_person)
    writes, left_out = ({}, ()) if node.output_schema is None else merged_reply(visit, output)
    update_state(visit, writes, {"output": output})
    warnings = (*toolset.warnings, *calls.warnings, *left_out)
    return Wrote(writes, output=output, usage=calls.usage, warnings=warnings)


def _economy(visit: Visit[LlmNode]) -> bool | None:
    """Return whether its questions wait for batches; None: those without tools do."""
    if visit.context.economy_s is None:
        return False
    return visit.graph.economy if visit.node.economy is None else visit.node.economy


def _output(
    visit: Visit[LlmNode],
    calls: ModelCalls,
    toolset: Toolset,
    skills: Skills,
    children: node_children.NodeChildren | None,
) -> Any:
    node = visit.node
    if not calls.model:
        raise _LlmFailed("no model set here, in the graph or as engine default")
    ended = None if children is None else children.failure()
    if ended is not None:
        raise _LlmFailed(*decode(ended))
    ending = _Ending(visit, calls, children)
    texts = _texts(visit, calls, toolset, skills, ending)
    return ending.output if node.check else _value(visit, calls, texts)


@dataclass(slots=True)
class _Ending:
    """Lets a model stop that has collected its agents and whose output passes the node's checks."""

    visit: Visit[LlmNode]
    calls: ModelCalls
    children: node_children.NodeChildren | None
    output: Any = None  # that passed the checks
    rounds: int = 0  # of the checks

    def __call__(
        self, notebook: Notebook, reply: Reply, is_last_turn: bool, /
    ) -> tuple[Notebook, str | None]:
        if self.children is not None:
            notebook, reminder = self.children.remind(notebook)
            if reminder is not None:
                return notebook, reminder
        if not self.visit.node.check:
            return notebook, None
        self.output, self.rounds = _value(self.visit, self.calls, [reply.text]), self.rounds + 1
        try:
            said = checks.complaints(self.visit, self.output, self.rounds, is_last_turn)
        except checks.CheckFailed as failure:
            raise _LlmFailed(str(failure)) from failure
        if said and not self.calls.transcript.goes_on:
            checks.narrate(self.visit, self.rounds, said)
        return notebook, "\n".join(said) if said else None


def _value(visit: Visit[LlmNode], calls: ModelCalls, texts: list[str]) -> Any:
    """Return the output that is in the texts of replies."""
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise _LlmFailed("produced no output", repeatable=True)
    text, schema = "\n".join(texts), visit.node.output_schema
    if schema is None:
        return text
    try:
        return extract(schema, text, calls.ask_extractor, texts[-1], visit.limits.check_s)
    except ExtractionFailed as error:
        raise _LlmFailed(str(error)) from error


def _messages(visit: Visit[LlmNode], calls: ModelCalls) -> list[Message]:
    """Start a new conversation from the state; nothing of earlier attempts is in it."""
    limit = visit.limits.value_bytes
    try:
        return opening(
            visit.graph,
            visit.node,
            lambda text: render_strict(text, visit.state, limit=limit),
            _attached(visit, calls) if visit.node.attach else (),
        )
    except MissingReference as error:
        raise _LlmFailed(str(error)) from error


def _attached(visit: Visit[LlmNode], calls: ModelCalls) -> list[dict[str, Any]]:
    """Return the documents of the node's files, which its calls get."""
    try:
        files = [(file.document(), file) for file in attaching.attached(visit)]
    except attaching.CannotAttach as error:
        raise _LlmFailed(str(error)) from error
    calls.attachments = {document[DIGEST]: file for document, file in files}
    return [document for document, _ in files]


def _texts(
    visit: Visit[LlmNode], calls: ModelCalls, toolset: Toolset, skills: Skills, ending: _Ending
) -> list[str]:
    """Converse, and return the texts of all turns."""
    try:
        messages = _messages(visit, calls)
        bounds = bounds_at(visit.context.depth) if visit.node.refuse_repeated_calls else None
        return converse(calls, messages, toolset, visit.node.max_iterations, skills, bounds, ending)
    except ModelCallFailed as error:
        raise _LlmFailed(error.message, is_repeatable(error), error.retry_after_s) from error
    except IterationsExhausted as error:
        raise _LlmFailed(str(error)) from error


def _after_failure(visit: Visit[LlmNode], calls: ModelCalls, failure: _LlmFailed) -> Outcome:
    left = calls.node_seconds_left()
    if left is not None and left <= 0:
        return _tolerated(visit, calls, f"timed out after {visit.node.timeout:g}s")
    if _may_try_again(visit, failure):
        delay_s = _within_limit(
            calls, visit.limits.model_backoff.pause_s(visit.attempt, failure.retry_after_s)
        )
        return Postponed(delay_s, visit.mask(failure.reason), calls.usage)
    return _tolerated(visit, calls, failure.reason)


def _within_limit(calls: ModelCalls, delay_s: float) -> float:
    """Waiting counts towards the node's timeout: it ends on time, not after the delay."""
    left = calls.node_seconds_left()
    return delay_s if left is None else max(0.0, min(delay_s, left))


def _may_try_again(visit: Visit[LlmNode], failure: _LlmFailed) -> bool:
    return failure.repeatable and visit.attempt < visit.graph.attempts_of(visit.node)


def _tolerated(visit: Visit[LlmNode], calls: ModelCalls, reason: str) -> Wrote:
    node = visit.node
    reason = visit.mask(reason)
    if node.fallback is None and (visit.is_strict or not node.has_next):
        raise NodeFailed("R014", reason, calls.usage)
    output = f"LLM node failed: {reason}"
    writes: dict[str, Any] = {}
    update_state(visit, writes, {"output": output})
    targets = (node.fallback,) if node.fallback else None
    return Wrote(writes, targets, output=output, failure=reason, usage=calls.usage)
