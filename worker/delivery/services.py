"""What all visits of one worker process share."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.process.health.figures import Figures
from sleipnir.worker.delivery.known_conversations import KnownConversations

if TYPE_CHECKING:
    from pathlib import Path

    from sleipnir.scheduler.config.secrets import Secrets
    from sleipnir.scheduler.config.settings import Settings
    from sleipnir.scheduler.store.run_store import RunStore
    from sleipnir.worker.conversation.tool_resolver import ToolResolver
    from sleipnir.worker.delivery.bundle_cache import BundleCache
    from sleipnir.worker.delivery.isolation import Isolation
    from sleipnir.worker.knowledge.bases import KnowledgeBases
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.telemetry.visit_spans import VisitSpans
    from sleipnir.worker.visit.context import VisitLimits
    from sleipnir.worker.visit.lease import Leases


@dataclass(frozen=True, slots=True)
class Services:
    """One per process; everything in it is thread-safe.

    A worker's models, tools and knowledge bases are created when a node first uses them.
    """

    store: RunStore
    agents: BundleCache
    leases: Leases
    models: Models
    tools: ToolResolver
    knowledge: KnowledgeBases
    secrets: Secrets
    settings: Settings
    limits: VisitLimits
    scratch: Path  # parent of the working directories of runs submitted without one
    # For visits that have lost workers; None in a process that was started for one visit.
    isolation: Isolation | None = None
    conversations: KnownConversations = field(default_factory=KnownConversations)
    figures: Figures = field(default_factory=Figures)
    spans: VisitSpans | None = None  # None: no traces are exported
