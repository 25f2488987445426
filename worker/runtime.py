"""What all visits of one worker process share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scheduler.secrets import Secrets
from scheduler.settings import Settings
from scheduler.store import RunStore
from worker.agents import AgentCache
from worker.isolation import Isolation
from worker.lease import Leases
from worker.llm.models import Models
from worker.llm.offering import Tools
from worker.visit import Limits


@dataclass(frozen=True, slots=True)
class Runtime:
    """One per process; everything in it may be used from any thread."""

    store: RunStore
    agents: AgentCache
    leases: Leases
    models: Models
    tools: Tools
    secrets: Secrets
    settings: Settings
    limits: Limits
    scratch: Path  # holds a directory per run that brought none
    # For visits that lost workers; None in a process that is one visit's already.
    isolation: Isolation | None = None
