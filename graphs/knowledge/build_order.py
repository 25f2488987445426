"""The order of a build: what to build, as a value in the state of its run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """A knowledge base to build."""

    agent: str
    node: str
    settings: BuildSettings
    entries: tuple[str, ...]  # entries of the field `documents`
    documents: str  # name under which the documents from the agent's machine are stored
    batch_size: int | None = None  # texts per call of the model
    claim: str = ""  # what others that need the index wait for, beside its address
    previous: str | None = None  # address of an index whose vectors may be reused
    bundle: str | None = None  # the agent's, to record the address for its other runs

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BuildOrder:
        settings = BuildSettings(**value["settings"])
        return cls(**{**value, "settings": settings, "entries": tuple(value["entries"])})
