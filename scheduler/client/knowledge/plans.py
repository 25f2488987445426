"""Plans of an agent's knowledge bases: what its runs know of them, and how to build them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.knowledge.bases import DescribedBase, bases_of
from sleipnir.graphs.knowledge.build_settings import BuildSettings, Incomplete, effective
from sleipnir.graphs.knowledge.local_files import local_files_hash
from sleipnir.graphs.knowledge.plan import KnowledgePlan
from sleipnir.graphs.knowledge.pointer import (
    Pointer,
    UnusablePointer,
    pointer_file,
    read_pointer,
)
from sleipnir.graphs.knowledge.sources import loader_names
from sleipnir.scheduler.client.knowledge.pointers import BuiltBase, UnbuiltBase
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.settings import Settings

# A person's choices for knowledge bases that agent and settings do not fully describe: by the
# agent's directory and the node's id.
BuildChoices: TypeAlias = Mapping[tuple[Path, str], Mapping[str, Any]]


class ChooseBuild(Protocol):
    """Asks a person about knowledge bases to be built."""

    def __call__(
        self, agent: str, base: DescribedBase, defaults: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Return the missing settings to build it; None: don't build it."""

    def leaves_out(
        self, agent: str, base: DescribedBase, failures: Sequence[tuple[str, str]]
    ) -> bool:
        """Return whether to continue without documents, given as (source, reason) pairs."""


def rag_defaults(settings: Settings) -> dict[str, Any]:
    """Return the build settings for knowledge bases whose nodes do not specify them."""
    return {
        "embedding_model": settings.rag_embedding_model,
        "chunk_size": settings.rag_chunk_size,
        "chunk_overlap": settings.rag_chunk_overlap,
    }


def plans_of(
    agent: Agent, settings: Settings, choices: BuildChoices | None = None
) -> dict[str, KnowledgePlan]:
    """Return the plans of the agent's knowledge bases, by the names of their pointers.

    Those that cannot be built are left out.
    """
    plans: dict[str, KnowledgePlan] = {}
    for base in bases_of(agent):
        reranker = getattr(base.node, "reranker_model", None) or settings.rag_reranker_model
        try:
            pointer = _pointer(agent, base)
        except UnusablePointer:
            continue
        chosen = (choices or {}).get((agent.directory, base.node_id), {})
        wanted = effective(base.node, {**rag_defaults(settings), **chosen})
        template = settings.rag_template if base.node is None else None
        top_k = base.top_k or (pointer and pointer.top_k) or settings.rag_top_k
        if pointer is not None:
            built = pointer.settings, top_k, pointer.address, reranker, template
            plans[base.node_id] = KnowledgePlan(*built, absolute=settings.rag_absolute_paths)
        elif isinstance(wanted, BuildSettings):
            plans[base.node_id] = KnowledgePlan(
                wanted, top_k, None, reranker, template, absolute=settings.rag_absolute_paths
            )
    return plans


def unbuilt_bases(
    agent: Agent, settings: Settings, plans: Mapping[str, KnowledgePlan], digest: str
) -> Iterator[UnbuiltBase]:
    """Yield the knowledge bases that runs of a bundle have to build if nobody has yet."""
    loaders = loader_names(settings.document_loaders)
    for base in bases_of(agent):
        plan = plans.get(base.node_id)
        if plan is not None and plan.address is None:
            files = local_files_hash(
                agent.directory,
                base.documents,
                loaders,
                allow_absolute=settings.rag_absolute_paths,
            )
            documents = tuple(base.documents)
            yield UnbuiltBase(
                agent.directory,
                base.node_id,
                digest,
                plan.settings,
                base.top_k,
                documents,
                files,
            )


def built_bases(plans: Mapping[str, KnowledgePlan], digest: str) -> Iterator[BuiltBase]:
    """Yield the knowledge bases that are already built for runs of a bundle."""
    for node_id, plan in plans.items():
        if plan.address is not None:
            yield BuiltBase(node_id, digest, plan.address)


def choices_for(
    agent: Agent, settings: Settings, choose: ChooseBuild
) -> dict[tuple[Path, str], Mapping[str, Any]]:
    """Ask about each unbuilt knowledge base that lacks settings."""
    chosen: dict[tuple[Path, str], Mapping[str, Any]] = {}
    defaults = rag_defaults(settings)
    for base in bases_of(agent):
        found = effective(base.node, defaults)
        if isinstance(found, Incomplete) and found.missing and _is_unbuilt(agent, base):
            answer = choose(agent.name, base, defaults)
            if answer is not None:
                chosen[agent.directory, base.node_id] = answer
    return chosen


def _is_unbuilt(agent: Agent, base: DescribedBase) -> bool:
    try:
        return _pointer(agent, base) is None
    except UnusablePointer:
        return False  # reported as a finding


def _pointer(agent: Agent, base: DescribedBase) -> Pointer | None:
    return read_pointer(pointer_file(agent.directory, base.node_id, data_dir() / "kb"))
