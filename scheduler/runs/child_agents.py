"""Which agents the runs of a tree may start, by name.

A name may mean different agents to different parents: each looks for its children in its own place
first. The maps have an entry for the name, which is the root's, and further ones for parents to
whom it means something else.
"""

from __future__ import annotations

from collections.abc import Mapping

from sleipnir.scheduler.errors import SubmissionRefused

_DIGEST_CHARACTERS = 64


class ChildAgents:
    """Collects what parents, given by the digests of their bundles, mean by names."""

    def __init__(self) -> None:
        # Digest, or why there is none, and whether it is a digest.
        self._found: dict[tuple[str, str], tuple[str, bool]] = {}

    def add(self, parent: str, name: str, digest: str) -> None:
        """Add an agent that can be started.

        Raises:
            SubmissionRefused: copies of the parent in different places mean different agents.
        """
        self._put(parent, name, (digest, True))

    def lack(self, parent: str, name: str, reason: str) -> None:
        """Add an agent that cannot be started.

        Raises:
            SubmissionRefused: as `add`.
        """
        self._put(parent, name, (reason, False))

    def of(self, root: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the digests of the agents, and why others cannot be started."""
        entries = sorted(self._found.items(), key=lambda entry: entry[0][0] != root)
        meanings: dict[str, tuple[str, bool]] = {}
        for (parent, name), meaning in entries:
            if meanings.setdefault(name, meaning) != meaning:
                meanings[_scoped(parent, name)] = meaning
        digests = {name: text for name, (text, is_digest) in meanings.items() if is_digest}
        return digests, {name: text for name, (text, _) in meanings.items() if name not in digests}

    def _put(self, parent: str, name: str, meaning: tuple[str, bool]) -> None:
        if self._found.setdefault((parent, name), meaning) != meaning:
            raise SubmissionRefused(
                f"'{name}' resolves to different agents in different places; rename one"
            )


def meaning(
    agents: Mapping[str, str], unavailable: Mapping[str, str], parent: str, name: str
) -> tuple[str | None, str | None]:
    """Return the digest that a name has for a parent, or why it has none, if that is known."""
    for key in (_scoped(parent, name), name):
        if key in agents:
            return agents[key], None
        if key in unavailable:
            return None, unavailable[key]
    return None, None


def names_in(agents: Mapping[str, str]) -> list[str]:
    """Return the names in such a map, sorted."""
    return sorted(key for key in agents if key[_DIGEST_CHARACTERS:][:1] != ":")


def digests_for(agents: Mapping[str, str], parent: str) -> dict[str, str]:
    """Return the digests as a parent sees them, by name."""
    return {name: agents.get(_scoped(parent, name), agents[name]) for name in names_in(agents)}


def _scoped(parent: str, name: str) -> str:
    return f"{parent}:{name}"
