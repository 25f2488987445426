"""What one visit of a node costs: of llm nodes, agent nodes, searches, and whole conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from sleipnir.graphs.knowledge.build_settings import KEYWORDS_ONLY, LOCAL
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.plan.calls import EXTRACTIONS, calls_of_visit, may_call
from sleipnir.graphs.plan.interval import NOTHING, UNKNOWN, Interval
from sleipnir.graphs.schema import AgentNode, BaseNode, Graph, LlmNode, RagNode
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.graphs.template import MISSING, references, render_lenient, resolve
from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.conversation.structured_output import extractor_messages
from sleipnir.worker.plan.amounts import Amounts
from sleipnir.worker.plan.prices import PlannedModels
from sleipnir.worker.plan.prompts import Prompts, text_tokens, tokens_of

# What an extractor is told of the errors in its first reply: five of them, cut.
_REJECTION_TOKENS = 400


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """The amounts of one visit of each node of a graph."""

    graph: Graph
    prompts: Prompts
    settings: Settings
    models: PlannedModels
    child: Callable[[AgentNode], Amounts]  # of one run of a node's agent

    def of_visit(self, node_id: str, node: BaseNode, known: Mapping[str, Any]) -> Amounts:
        """Return the amounts of a visit, given the state's known values."""
        match node:
            case LlmNode():
                return self._of_llm(node_id, node, known)
            case AgentNode():
                return self._of_agent(node)
            case RagNode():
                return self._of_search(node, known)
            case TurnNode():
                return self._of_conversation(node, known)
        return Amounts()

    def is_known(self, node_id: str, node: BaseNode, known: Mapping[str, Any]) -> bool:
        """Return whether the whole text of a visit's prompt is known."""
        return isinstance(node, LlmNode) and self.prompts.prompt(node_id, node, known).is_known

    def _of_llm(self, node_id: str, node: LlmNode, known: Mapping[str, Any]) -> Amounts:
        graph = self.graph
        model = self.models.find(node.model or graph.model or self.settings.model or "")
        prompt = self.prompts.prompt(node_id, node, known)
        calls = calls_of_visit(graph, node)
        own = graph.max_tokens if node.max_tokens is None else node.max_tokens
        reply = model.longest_reply if own is None else own
        most_in = inf
        if prompt.is_known and not may_call(graph, node) and not node.check:
            one_try = prompt.tokens + self._most_of_extraction(node, reply)
            most_in = one_try * graph.attempts_of(node)
        tokens_in = Interval(calls.least * prompt.tokens, most_in)
        if graph.offers_agents(node):
            calls = Interval(calls.least, inf)  # those of the agents that it starts
        share = self.models.share_of(model, node, graph)
        return model.cost(calls, tokens_in, Interval(0, calls.most * reply), prompt.tokens, share)

    def _most_of_extraction(self, node: LlmNode, reply: int) -> int:
        if node.output_schema is None:
            return 0
        asked = tokens_of(extractor_messages(node.output_schema, ""))
        return EXTRACTIONS * (asked + reply) + _REJECTION_TOKENS

    def _of_agent(self, node: AgentNode) -> Amounts:
        amounts = self.child(node) * Interval(1, node.max_attempts)
        if node.output_schema is None:
            return amounts
        model = self.models.find(self.graph.model or self.settings.model or "")
        calls = Interval(0, EXTRACTIONS * node.max_attempts)
        longest = model.longest_reply if self.graph.max_tokens is None else self.graph.max_tokens
        # The text of an agent may have any length.
        return amounts + model.cost(calls, UNKNOWN, Interval(0, calls.most * longest))

    def _of_search(self, node: RagNode, known: Mapping[str, Any]) -> Amounts:
        """Return what its models cost; they are no calls of a chat."""
        embedding = node.embedding_model or self.settings.rag_embedding_model
        amounts = Amounts()
        if embedding not in (None, LOCAL, KEYWORDS_ONLY):
            is_known = all(
                each.path is not None and resolve(each.path, (known,)) is not MISSING
                for each in references(node.query)
            )
            tokens = text_tokens(render_lenient(node.query, known))
            tokens_in = Interval(0, tokens * node.max_attempts if is_known else inf)
            amounts += self.models.find(embedding).cost(NOTHING, tokens_in, NOTHING)
        if reranker := node.reranker_model or self.settings.rag_reranker_model:
            amounts += self.models.find(reranker).cost(NOTHING, UNKNOWN, NOTHING)
        return amounts

    def _of_conversation(self, node: TurnNode, known: Mapping[str, Any]) -> Amounts:
        config = node.config
        model = self.models.find(config.model or self.settings.model or "")
        most = float(self.settings.agent_max_turns or inf)
        if config.can_spawn_agents:
            most = inf
        texts = (config.instructions, str(known.get(PROMPT_KEY, "")))
        tokens = sum(text_tokens(text) for text in texts if "{{" not in text)
        replies = Interval(0, most * model.longest_reply)
        return model.cost(Interval(1, most), Interval(tokens, inf), replies, tokens)
