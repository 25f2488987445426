"""The pointer: a small generated file that stands for a knowledge base that was built."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sleipnir.graphs.document.references import SHIPPED_AGENTS
from sleipnir.graphs.files import MIB, read_text, reason
from sleipnir.graphs.knowledge.build_settings import FIELDS, BuildSettings

POINTER_FORMAT = 1
# For a normal agent, whose pointer is `rag.yaml`.
NORMAL_AGENT_NODE = "rag"

_HEADER = "# Made by `sleipnir kb build`: delete it to rebuild the knowledge base.\n"


class UnusablePointer(Exception):
    """A pointer cannot be read; the text says why."""


class Pointer(BaseModel):
    """A knowledge base as it was built."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int = POINTER_FORMAT
    address: str = Field(pattern=re.compile("^[0-9a-f]{64}$"))
    embedding_model: str
    chunk_size: int = Field(ge=1)
    chunk_overlap: int = Field(ge=0)
    top_k: int | None = Field(None, ge=1)  # the node's, for when it has none any more
    documents: list[str]
    files: int  # documents read, including those without chunks
    chunks: int
    dimension: int | None  # None: keywords only
    files_hash: str  # of the local documents
    built_at: str  # RFC 3339

    @property
    def settings(self) -> BuildSettings:
        return BuildSettings(self.embedding_model, self.chunk_size, self.chunk_overlap)

    def to_yaml(self) -> str:
        """Return the content of the file."""
        return _HEADER + yaml.safe_dump(self.model_dump(), sort_keys=False, allow_unicode=True)


def parse_pointer(text: str) -> Pointer:
    """Parse the text of a pointer.

    Raises:
        UnusablePointer: it is not a pointer, or of another version.
    """
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UnusablePointer("it is not YAML") from error
    if not isinstance(found, Mapping) or found.get("format") != POINTER_FORMAT:
        raise UnusablePointer("its format is not known")
    try:
        return Pointer.model_validate(found)
    except ValidationError as error:
        raise UnusablePointer(f"'{error.errors()[0]['loc'][0]}' is not usable") from error


def read_pointer(file: Path) -> Pointer | None:
    """Read a pointer; None if the file does not exist.

    Raises:
        UnusablePointer: it cannot be read, is not a pointer, or is of another version.
    """
    try:
        return parse_pointer(read_text(file, MIB))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UnusablePointer(reason(error)) from error


def pointer_file(directory: Path, node_id: str, elsewhere: Path | None) -> Path:
    """Return where the pointer of a knowledge base is, or would be.

    Args:
        directory: the agent's.
        elsewhere: directory for pointers of agents whose own directories are not writable.
    """
    own = directory / f"{node_id}.yaml"
    if elsewhere is None or not is_kept_elsewhere(directory):
        return own
    kept = elsewhere / directory.name / own.name
    return kept if kept.exists() else own


def is_kept_elsewhere(directory: Path) -> bool:
    """Return whether new pointers go elsewhere: the agent is shipped, or read-only."""
    shipped = directory.is_relative_to(SHIPPED_AGENTS.resolve())
    return shipped or not os.access(directory, os.W_OK)


def changes(pointer: Pointer, wanted: Mapping[str, Any], documents: Sequence[str]) -> list[str]:
    """Return what would be built differently today, one sentence per field.

    Args:
        wanted: the effective build settings, as far as they are known.
        documents: the entries, as written.
    """
    found = [
        (field, getattr(pointer, field), wanted[field])
        for field in FIELDS
        if wanted.get(field) is not None and wanted[field] != getattr(pointer, field)
    ]
    entries = [document.strip() for document in documents]
    if entries != pointer.documents:
        found.append(("documents", ", ".join(pointer.documents), ", ".join(entries)))
    return [
        f"the knowledge base was built with {field} {built}, now it is {now}"
        for field, built, now in found
    ]
