"""The part of the client that makes agents ready to be run."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.knowledge_pointers import KnowledgeNotes

# Most clients only look at runs.
with lazy_imports():
    from sleipnir.scheduler import preparation

if TYPE_CHECKING:
    from pathlib import Path

    from sleipnir.graphs.document.references import AgentSearch
    from sleipnir.scheduler.preparation import PreparedAgent
    from sleipnir.scheduler.store.run_store import RunStore


class Preparing:
    """Finds agents for a client, and notes what knowledge bases their runs have built."""

    store: RunStore
    search: AgentSearch

    def prepare(self, reference: str, workdir: Path | None = None) -> PreparedAgent:
        """Find, validate and pack an agent, and store its bundles.

        Args:
            workdir: of its runs, where skills of their own may be; None: the current directory.

        Raises:
            AgentNotFound, InvalidAgent, BundleError: it cannot run as it is.
            SubmissionRefused: it is of a kind this version cannot run.
        """
        settings, put = self.store.settings, self.store.bundles.put
        prepared = preparation.Preparation(settings, self.search, put, workdir).prepare(reference)
        self.knowledge_notes.add(prepared.unbuilt)
        return prepared

    @cached_property
    def knowledge_notes(self) -> KnowledgeNotes:
        """The knowledge bases of agents prepared here."""
        return KnowledgeNotes(self.store)
