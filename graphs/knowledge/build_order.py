"""What a build of a knowledge base is told to do: a value in the state of its run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """One knowledge base to build."""

    agent: str
    node: str
    settings: BuildSettings
    entries: tuple[str, ...]  # of `documents`
    documents: str  # the name that the documents from the agent's machine are kept under
    batch_size: int | None = None  # texts of one call of the model
    claim: str = ""  # what others that need the index wait for, beside its address
    previous: str | None = None  # the address of an index whose vectors may be taken
    bundle: str | None = None  # of the agent, to note the address for its other runs

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BuildOrder:
        settings = BuildSettings(**value["settings"])
        return cls(**{**value, "settings": settings, "entries": tuple(value["entries"])})
