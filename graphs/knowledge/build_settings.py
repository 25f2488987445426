"""How a knowledge base is built: by the node's fields, or else the engine's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.knowledge.chunking import ChunkSizes
from sleipnir.records import dataclass

# Stands for no embedding model: keywords only.
KEYWORDS_ONLY = "none"
# The static model of the extra `local`.
LOCAL = "local"
LOCAL_MODEL = "local/wordllama-l2_supercat_256"
LOCAL_MISSING = "the embedding model 'local' is not installed"
LOCAL_REMEDY = "pip install 'sleipnir[local]'"

FIELDS = ("embedding_model", "chunk_size", "chunk_overlap")
_KEYWORD_SIZES = {"chunk_size": 1000, "chunk_overlap": 50}


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """Everything that shapes an index, apart from its documents."""

    embedding_model: str  # provider:model, "local" or "none"
    chunk_size: int
    chunk_overlap: int

    @property
    def sizes(self) -> ChunkSizes:
        return ChunkSizes(self.chunk_size, self.chunk_overlap)

    @property
    def is_keyword_only(self) -> bool:
        """Whether no text is ever embedded."""
        return self.embedding_model == KEYWORDS_ONLY

    @property
    def index_model(self) -> str:
        """The model as an index names it; for the local one, including its version."""
        return LOCAL_MODEL if self.embedding_model == LOCAL else self.embedding_model

    def to_json(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in FIELDS}


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Settings are missing, or contradict each other."""

    missing: tuple[str, ...]
    problem: str = ""


def effective(node: Any, defaults: Mapping[str, Any]) -> BuildSettings | Incomplete:
    """Return the build settings of a node.

    Args:
        node: has the fields as attributes; those not set are None or missing.
        defaults: the engine's, by field; with keywords only, chunk sizes need not be set.
    """
    values = wanted(node, defaults)
    missing = tuple(field for field in FIELDS if values[field] is None)
    if missing:
        return Incomplete(missing)
    if values["chunk_overlap"] >= values["chunk_size"]:
        problem = (
            f"chunk_overlap ({values['chunk_overlap']}) is not less than "
            f"chunk_size ({values['chunk_size']})"
        )
        return Incomplete((), problem)
    return BuildSettings(**values)


def wanted(node: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as far as they are known; None for the rest."""
    values = {field: _first(getattr(node, field, None), defaults.get(field)) for field in FIELDS}
    if values["embedding_model"] == KEYWORDS_ONLY:
        for field, value in _keyword_sizes(values["chunk_size"]).items():
            values[field] = _first(values[field], value)
    return values


def _keyword_sizes(chunk_size: int | None) -> dict[str, int]:
    if chunk_size is None:
        return _KEYWORD_SIZES
    return {"chunk_overlap": min(_KEYWORD_SIZES["chunk_overlap"], chunk_size // 20)}


def _first(value: Any, default: Any) -> Any:
    return default if value is None else value
