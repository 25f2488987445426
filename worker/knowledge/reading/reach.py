"""Which documents may be read for a knowledge base, and with which commands."""

from __future__ import annotations

from sleipnir.graphs.knowledge.sources import Entry, SourceError, classify, loader_names
from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.knowledge.reading.loaders import Loaders, loaders_here, own_loaders
from sleipnir.worker.visit.cancellation import Cancellation


@dataclass(frozen=True, slots=True)
class Reach:
    """Which documents may be read, and with which commands."""

    settings: Settings
    loaders: Loaders
    is_here: bool  # on the agent's machine

    @property
    def document_bytes(self) -> int:
        return self.settings.rag_document_max_bytes

    @property
    def absolute_paths(self) -> bool:
        return self.is_here and self.settings.rag_absolute_paths

    def classify(self, entry: str) -> Entry:
        """Classify an entry of `documents`, by the loaders configured on its machine."""
        return classify(entry, loader_names(self.settings.document_loaders))

    def require_loader(self, name: str) -> None:
        """Check that a loader may run on this machine.

        Raises:
            SourceError: it is a configured command, which runs on the agent's machine only.
        """
        if name not in self.loaders.names:
            raise SourceError(
                f"the loader '{name}' runs on the machine of the agent: build the knowledge base "
                "there with `sleipnir kb build`"
            )


def reach_here(settings: Settings, cancellation: Cancellation | None = None) -> Reach:
    """Return what may be read on the agent's machine."""
    return Reach(settings, loaders_here(settings, cancellation), is_here=True)


def reach_elsewhere(settings: Settings, cancellation: Cancellation) -> Reach:
    """Return what a worker may read, wherever it runs."""
    return Reach(settings, own_loaders(settings, cancellation), is_here=False)
