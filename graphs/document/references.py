"""Finds the directory of an agent, given a path or a name."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from sleipnir.graphs.errors import AgentNotFound
from sleipnir.records import dataclass

GRAPH_FILE = "graph.yaml"
CONFIG_FILE = "config.yaml"
# A directory with one of these is an agent's.
AGENT_FILES = (GRAPH_FILE, CONFIG_FILE)

SHIPPED_AGENTS = Path(__file__).parents[1] / "agents"


@dataclass(frozen=True, slots=True)
class AgentSearch:
    """The directories that hold agents; a name is looked up in each in turn."""

    directories: tuple[Path, ...]

    def find(self, reference: str, relative_to: Path | None = None) -> Path:
        """Return the directory of an agent, whether it can be loaded or not.

        Args:
            reference: a name, or a path to an agent directory or to its file.
            relative_to: what a relative path starts from; None: the current directory.

        Raises:
            AgentNotFound: with similar names and the places searched.
        """
        if is_path(reference):
            return _at_path((relative_to or Path()) / reference, reference)
        # Names that begin with a dot are shared files, not agents.
        if reference and not reference.startswith("."):
            for directory in self.directories:
                if _is_directory(directory / reference):
                    return directory / reference
        near = get_close_matches(reference, self.names())
        raise AgentNotFound(reference, [str(place) for place in self.directories], near)

    def names(self) -> dict[str, Path]:
        """Return the directories of all agents that can be found by name, sorted."""
        found: dict[str, Path] = {}
        for directory in self.directories:
            for candidate in directory.iterdir() if directory.is_dir() else ():
                if _is_agent(candidate):
                    found.setdefault(candidate.name, candidate)
        return dict(sorted(found.items()))


def is_path(reference: str) -> bool:
    """Return whether a reference to an agent is a path, not a name."""
    return "/" in reference or reference.endswith(".yaml") or reference in (".", "..")


def _at_path(path: Path, reference: str) -> Path:
    if _is_directory(path):
        return path
    exists = os.path.exists(path)  # noqa: PTH110 - false also for what cannot be accessed
    if path.name in AGENT_FILES and exists:
        return path.parent
    what = ", which is not an agent's directory" if exists else ""
    raise AgentNotFound(reference, [f"{path}{what}"])


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # longer than file names may be, or not accessible
        return False


def _is_agent(path: Path) -> bool:
    return not path.name.startswith(".") and any((path / name).is_file() for name in AGENT_FILES)
