"""Writes pointers, beside agents, to the knowledge bases that their runs have built."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.errors import ArtifactStoreFailed

# Most agents have no knowledge base.
with lazy_imports():
    from sleipnir.graphs.knowledge import pointer
    from sleipnir.scheduler.store.knowledge import indexes as store

if TYPE_CHECKING:
    from sleipnir.graphs.knowledge.build_settings import BuildSettings
    from sleipnir.graphs.knowledge.pointer import Pointer
    from sleipnir.scheduler.store.knowledge.indexes import Indexes
    from sleipnir.scheduler.store.run_store import RunStore


@dataclass(frozen=True, slots=True)
class UnbuiltBase:
    """A knowledge base that was unbuilt when runs of its agent were submitted."""

    directory: Path  # the agent's directory
    node_id: str
    bundle: str
    settings: BuildSettings
    top_k: int | None
    documents: tuple[str, ...]
    files_hash: str


@dataclass(frozen=True, slots=True)
class BuiltBase:
    """A knowledge base that, according to its pointer, is already built."""

    node_id: str
    bundle: str
    address: str


class PendingPointers:
    """The unbuilt knowledge bases of agents prepared by one client."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._unbuilt: list[UnbuiltBase] = []

    def add(self, unbuilt: Iterable[UnbuiltBase], built: Iterable[BuiltBase]) -> None:
        """Add more of them; earlier runs may have built them already."""
        self._unbuilt += unbuilt
        self.write()
        for base in built:
            self._indexes.note_address(base.bundle, base.node_id, base.address)
            with suppress(ArtifactStoreFailed):  # a run will say so
                self._indexes.point_at(base.address)

    def write(self) -> None:
        """Write pointers to those that have been built by now."""
        if self._unbuilt:
            self._unbuilt = [base for base in self._unbuilt if not _noted(base, self._indexes)]

    @cached_property
    def _indexes(self) -> Indexes:
        return store.Indexes(self._store.client, self._store.settings)


def _noted(base: UnbuiltBase, indexes: Indexes) -> bool:
    address = indexes.address_of(base.bundle, base.node_id)
    info = None
    with suppress(ArtifactStoreFailed):  # no harm: runs report it
        info = indexes.info(address) if address is not None else None
    if address is None or info is None:
        return False
    built = pointer.Pointer(
        address=address,
        **base.settings.to_json(),
        top_k=base.top_k,
        documents=[document.strip() for document in base.documents],
        files=info["files"],
        chunks=info["chunks"],
        dimension=info["dimension"],
        files_hash=base.files_hash,
        built_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    with suppress(OSError, ArtifactStoreFailed):  # the next run tries again
        write_pointer(base.directory, base.node_id, built)
        indexes.point_at(address)
    return True


def write_pointer(directory: Path, node_id: str, built: Pointer) -> None:
    """Write the pointer of a knowledge base beside its agent, atomically.

    If that directory is shipped or not writable, it goes into the data directory.

    Raises:
        OSError: it cannot be written; `filename` says where.
    """
    file = directory / f"{node_id}.yaml"
    if pointer.is_kept_elsewhere(directory):
        file = data_dir() / "kb" / directory.name / file.name
    scratch = file.with_name(f".{file.name}.new")
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch.write_text(built.to_yaml(), encoding="utf-8")
    scratch.replace(file)
