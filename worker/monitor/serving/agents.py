"""The agents that are served: those whose names match the setting `serve`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from sleipnir.graphs.document.references import AgentSearch


class ServedAgents:
    """Finds served agents by name; what is not served does not exist.

    Args:
        patterns: of names, with `*` and `?`.
    """

    def __init__(self, search: AgentSearch, patterns: Sequence[str]) -> None:
        self._search = search
        self._patterns = patterns

    def directories(self) -> dict[str, Path]:
        """Return the directory of each, by name in alphabetical order."""
        found = self._search.names()
        return {name: found[name] for name in sorted(found) if self.includes(name)}

    def has(self, name: str) -> bool:
        """Return whether there is an agent of that name."""
        return self.includes(name) and name in self._search.names()

    def includes(self, name: str) -> bool:
        """Return whether an agent of that name would be served."""
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)
