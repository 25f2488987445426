"""Finds the directory of an agent, given a path or a name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

from sleipnir.graphs.errors import AgentNotFound, AmbiguousAgent
from sleipnir.records import dataclass

GRAPH_FILE = "graph.yaml"
CONFIG_FILE = "config.yaml"
# A directory with one of these is an agent's.
AGENT_FILES = (GRAPH_FILE, CONFIG_FILE)

SHIPPED_AGENTS = Path(__file__).parents[1] / "agents"


def _trusts_none(_: Path) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class AgentSearch:
    """The directories that hold agents; a name is looked up in each in turn.

    `here` may belong to a stranger, as whoever enters a checkout has not read all of it. So it adds
    names, and never changes the meaning of one without the person's word.
    """

    directories: tuple[Path, ...]  # the user's, then the shipped agents
    here: Path | None = None  # `agents` of the current directory, unless it is one of the others
    named: tuple[Path, ...] = ()  # by a flag of this command: searched first
    # Whether the user has said that this agent of `here` may go by a name that others have too.
    trusts: Callable[[Path], bool] = _trusts_none

    def find(self, reference: str, parent: Path | None = None) -> Path:
        """Return the directory of an agent, whether it can be loaded or not.

        Args:
            reference: a name, or a path to an agent directory or to its file.
            parent: directory of the agent that starts it, where a relative path begins and beside
                which a name is looked up first; None: a person's reference.

        Raises:
            AmbiguousAgent: `here` and another directory have an agent of that name.
            AgentNotFound: with similar names and the places searched.
        """
        if is_path(reference):
            return _at_path((parent or Path()) / reference, reference)
        places = self._places(parent)
        # Names that begin with a dot are shared files, not agents.
        if reference and not reference.startswith("."):
            found = _with_name(reference, places)
            if found and parent is None and (other := self._other(found)):
                raise AmbiguousAgent(reference, found[0], other)
            if found:
                # What else is beside a parent, as a project's directories, hides no agent.
                agents = filter(_is_agent, found if parent is not None else ())
                return next(agents, found[0])
        near = get_close_matches(reference, self.names(parent))
        if reference and parent is None and _is_agent(Path(reference)):
            near = [f"./{reference}"]
        raise AgentNotFound(reference, [str(place) for place in places], near)

    def names(self, parent: Path | None = None) -> dict[str, Path]:
        """Return the directories of all agents that can be found by name, sorted.

        Where a name needs a person's word (`ambiguous`), it is not that of `here`.
        """
        found: dict[str, Path] = {}
        unclear = self.ambiguous() if parent is None else {}
        for directory in self._places(parent):
            for name, candidate in _agents_in(directory):
                if directory != self.here or name not in unclear:
                    found.setdefault(name, candidate)
        return dict(sorted(found.items()))

    def ambiguous(self) -> dict[str, Path]:
        """Return the agents of `here` whose names a person cannot use, as others have them too."""
        found = {}
        for name, candidate in self._of_here():
            if self._other(_with_name(name, self._places())):
                found[name] = candidate
        return found

    def _places(self, parent: Path | None = None) -> tuple[Path, ...]:
        here = () if self.here is None else (self.here,)
        if parent is None:
            return tuple(dict.fromkeys((*self.named, *here, *self.directories)))
        parent = parent.resolve()
        # Users link the agents they are developing.
        came_from_here = any(each.resolve() == parent for _, each in self._of_here())
        others = (*self.named, *(here if came_from_here else ()), *self.directories)
        return tuple(dict.fromkeys((parent.parent, *others)))

    def _of_here(self) -> Iterator[tuple[str, Path]]:
        return iter(()) if self.here is None else _agents_in(self.here)

    def _other(self, found: list[Path]) -> Path | None:
        """Return an agent that a person may mean instead of the first found."""
        mine, *others = found
        if mine.parent != self.here or self.here in self.named:
            return None
        others = [other for other in others if other.resolve() != mine.resolve()]
        return others[0] if others and not self.trusts(mine) else None


def _with_name(name: str, places: Iterable[Path]) -> list[Path]:
    return [place / name for place in places if _is_directory(place / name)]


def is_shipped(directory: Path) -> bool:
    """Return whether an agent's directory is one of those shipped with the engine."""
    return directory.resolve().parent == SHIPPED_AGENTS.resolve()


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


def _agents_in(directory: Path) -> Iterator[tuple[str, Path]]:
    for candidate in directory.iterdir() if directory.is_dir() else ():
        if _is_agent(candidate):
            yield candidate.name, candidate


def _is_agent(path: Path) -> bool:
    try:
        return not path.name.startswith(".") and any(
            (path / file).is_file() for file in AGENT_FILES
        )
    except OSError:  # as in `_is_directory`
        return False
