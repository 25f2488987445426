"""Adds what a normal agent's documents say about a user's message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.knowledge.bases import DescribedBase
from sleipnir.graphs.knowledge.pointer import NORMAL_AGENT_NODE
from sleipnir.graphs.knowledge.rag_template import filled
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.scheduler.runs.conversation.memory import SOURCES
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.visit.context import Visit

_SEARCH = "_documents"
_LIMIT_S = 120.0


def with_documents(visit: Visit[TurnNode], transcript: Transcript, text: str) -> str:
    """Return a user's message with what the agent's documents say about it; searched only once.

    Raises:
        KnowledgeFailed: its knowledge base must be built first, or cannot be searched.
    """
    plan = visit.agent.knowledge.get(NORMAL_AGENT_NODE)
    if plan is None:  # no documents, or not built, about which a warning was given
        return text
    known, searched = transcript.result_of(_SEARCH)
    if not known:
        base = DescribedBase(NORMAL_AGENT_NODE, visit.node.config.documents, None)
        found = visit.services.knowledge.search(visit, base, text, _LIMIT_S, transcript)
        message, warnings = filled(plan.template, text, **found.output), list(found.warnings)
        searched = {"message": message, "sources": found.output["sources"], "warnings": warnings}
        transcript.keep_result(_SEARCH, searched, None)
    return str(searched["message"])


def lasting_sources(transcript: Transcript) -> dict[str, Any]:
    """Return what the run keeps of the search: the sources found."""
    searched = _searched(transcript)
    return {SOURCES: searched["sources"]} if searched else {}


def search_warnings(transcript: Transcript) -> tuple[str, ...]:
    """Return the warnings of the search, and of a build before it."""
    return tuple(_searched(transcript).get("warnings", ()))


def _searched(transcript: Transcript) -> Mapping[str, Any]:
    _, searched = transcript.result_before_replies(_SEARCH)
    return searched or {}
