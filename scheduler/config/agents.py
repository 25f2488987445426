"""The directories in which agents are searched by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.directories import config_dir

with lazy_imports():
    from sleipnir.graphs.document import references

if TYPE_CHECKING:
    from sleipnir.graphs.document.references import AgentSearch
    from sleipnir.scheduler.config.settings import Settings


def agent_search(settings: Settings) -> AgentSearch:
    """Return the directories in which agents are searched by name, in order."""
    return references.AgentSearch(
        (
            Path("agents").absolute(),
            *(Path(directory).expanduser() for directory in settings.agents_dir),
            config_dir() / "agents",
            references.SHIPPED_AGENTS,
        )
    )
