"""What an index says of itself: its inputs, its sizes, and the hashes of its files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sleipnir.graphs.files import MIB
from sleipnir.graphs.knowledge.build_settings import BuildSettings

# About 300,000 documents. Reading JSON may take 25 times its size in memory.
MANIFEST_LIMIT_BYTES = 32 * MIB
MANIFEST = "manifest.json"


class IndexUnusable(Exception):
    """An index cannot be opened; the text says why."""


class ManifestSettings(BaseModel):
    """How an index was built."""

    model_config = ConfigDict(frozen=True)

    embedding_model: str
    chunk_size: int = Field(ge=1)
    chunk_overlap: int = Field(ge=0)


class Manifest(BaseModel):
    """The content of the manifest; fields of other formats are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    settings: ManifestSettings
    index_model: str
    # Of each document its source, kind and hash; a source may hold what is no Unicode.
    sources: list[tuple[Any, Any, Any]]
    chunks: int = Field(ge=1)
    dimension: int | None = Field(ge=1)  # of its vectors; None: keywords only
    tools: dict[str, str]  # versions
    digests: dict[str, str]  # of the other files, by path

    @property
    def build_settings(self) -> BuildSettings:
        return BuildSettings(**self.settings.model_dump())

    def write(self, directory: Path) -> None:
        """Write it; raises OSError."""
        (directory / MANIFEST).write_text(json.dumps(self.model_dump()), encoding="utf-8")


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of an index.

    Raises:
        IndexUnusable: it is not one, or is too large.
        OSError: it cannot be read.
    """
    file = directory / MANIFEST
    if file.stat().st_size > MANIFEST_LIMIT_BYTES:
        raise IndexUnusable(f"its manifest is larger than {MANIFEST_LIMIT_BYTES / MIB:g} MiB")
    try:
        return Manifest.model_validate(json.loads(file.read_bytes()))
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"])) or "no object"
        raise IndexUnusable(f"its manifest is not usable: {field}") from error
    except (ValueError, RecursionError) as error:
        raise IndexUnusable("its manifest is not JSON") from error


def digests_of(directory: Path) -> dict[str, str]:
    """Return the hashes of all files but the manifest, by path."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    found = {path.relative_to(directory).as_posix(): _digest(path) for path in files}
    found.pop(MANIFEST, None)
    return found


def require_undamaged(directory: Path) -> None:
    """Compare the files of an index with their hashes when it was made.

    Raises:
        IndexUnusable: one differs.
        OSError: one cannot be read.
    """
    digests, found = read_manifest(directory).digests, digests_of(directory)
    for name in sorted({*digests, *found}):
        if digests.get(name) != found.get(name):
            raise IndexUnusable(f"{name} is not as it was written")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
