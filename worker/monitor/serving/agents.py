"""The agents that are served: those whose names match the setting `serve`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from sleipnir.scheduler.client import Client
from sleipnir.worker.monitor.problems import Problem, Refused


class ServedAgents:
    """Finds served agents by name; what is not served does not exist."""

    def __init__(self, client: Client) -> None:
        self._search = client.search
        self._patterns = client.store.settings.serve.agents

    def directories(self) -> dict[str, Path]:
        """Return the directory of each, by name in alphabetical order."""
        found = self._search.names()
        return {name: found[name] for name in sorted(found) if self._includes(name)}

    def require(self, name: str) -> str:
        """Return the name of an agent that is served.

        Raises:
            Refused: there is none of that name.
        """
        if not self._includes(name) or name not in self._search.names():
            raise Refused(
                Problem(
                    404,
                    "model_not_found",
                    f"no agent named '{name[:200]}' is served here",
                    "GET /v1/models lists those that are",
                )
            )
        return name

    def _includes(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)
