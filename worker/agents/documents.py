"""Adds what a normal agent's documents say about a user's message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.knowledge.bases import DescribedBase
from sleipnir.graphs.knowledge.pointer import NORMAL_AGENT_NODE
from sleipnir.graphs.knowledge.rag_template import filled
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.visit.context import Visit

_SEARCH = "_documents"
_LIMIT_S = 120.0


def search_documents(
    visit: Visit[TurnNode], transcript: Transcript, text: str
) -> Mapping[str, Any]:
    """Return a user's `message` with what the agent's documents say about it; searched only once.

    If they were searched, `sources` and `warnings` are of that.

    Raises:
        KnowledgeFailed: its knowledge base must be built first, or cannot be searched.
    """
    plan = visit.agent.knowledge.get(NORMAL_AGENT_NODE)
    if plan is None:  # no documents, or not built, about which a warning was given
        return {"message": text}
    known, searched = transcript.result_of(_SEARCH)
    if not known:
        base = DescribedBase(NORMAL_AGENT_NODE, visit.node.config.documents, None)
        found = visit.services.knowledge.search(visit, base, text, _LIMIT_S, transcript)
        message, warnings = filled(plan.template, text, **found.output), list(found.warnings)
        searched = {"message": message, "sources": found.output["sources"], "warnings": warnings}
        transcript.keep_result(_SEARCH, searched, None)
    return dict(searched)
