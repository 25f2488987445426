"""The directories in which agents are searched by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.config.trusted_agents import is_trusted

with lazy_imports():
    from sleipnir.graphs.document import references

if TYPE_CHECKING:
    from sleipnir.graphs.document.references import AgentSearch
    from sleipnir.scheduler.config.settings import Settings


def agent_search(settings: Settings, named: Sequence[str] = ()) -> AgentSearch:
    """Return the directories in which agents are searched by name, in order.

    Args:
        named: directories that a flag of this command names.
    """
    here = Path("agents").absolute()
    configured = (
        *(Path(directory).expanduser().absolute() for directory in settings.agents_dir),
        config_dir() / "agents",
        references.SHIPPED_AGENTS,
    )
    is_configured = here.resolve() in {directory.resolve() for directory in configured}
    return references.AgentSearch(
        configured,
        here=None if is_configured else here,
        named=tuple(Path(directory).expanduser().absolute() for directory in named),
        trusts=is_trusted,
    )
