"""What the documents of a normal agent say about a user's message."""

from __future__ import annotations

from sleipnir.graphs.knowledge.bases import DescribedBase
from sleipnir.graphs.knowledge.pointer import NORMAL_AGENT_NODE
from sleipnir.graphs.knowledge.rag_template import filled
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.visit.context import Visit

_SEARCH = "_documents"
_LIMIT_S = 120.0


def with_documents(visit: Visit[TurnNode], transcript: Transcript, text: str) -> str:
    """A user's message, with what the agent's documents say about it; searched for once.

    Raises:
        KnowledgeFailed: its knowledge base is to be built first, or cannot be searched.
    """
    plan = visit.agent.knowledge.get(NORMAL_AGENT_NODE)
    if plan is None:  # it has no documents, or they were not built: a warning has said so
        return text
    known, message = transcript.result_of(_SEARCH)
    if not known:
        base = DescribedBase(NORMAL_AGENT_NODE, visit.node.config.documents, None)
        found = visit.services.knowledge.search(visit, base, text, _LIMIT_S, transcript)
        message = filled(plan.template, text, **found.output)
        child = visit.resumed_with or {}
        usage = Usage.from_text(child["usage"]) if "usage" in child else NO_USAGE
        transcript.keep_result(_SEARCH, message, None, usage=usage)
    return str(message)
