"""What runs are told of the knowledge bases of their agent, and what they are built with."""

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
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.knowledge_pointers import BuiltBase, UnbuiltBase

# What somebody has said of knowledge bases that their agents and the settings do not describe in
# full: by the agent's directory and the node's id.
BuildChoices: TypeAlias = Mapping[tuple[Path, str], Mapping[str, Any]]


class ChooseBuild(Protocol):
    """Asks somebody about knowledge bases that are to be built."""

    def __call__(
        self, agent: str, base: DescribedBase, defaults: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """What is missing to build one; None: it is not to be built."""

    def leaves_out(
        self, agent: str, base: DescribedBase, failures: Sequence[tuple[str, str]]
    ) -> bool:
        """Whether to go on without documents, given their sources and why they cannot be read."""


def rag_defaults(settings: Settings) -> dict[str, Any]:
    """What knowledge bases are built with where their nodes do not say."""
    return {
        "embedding_model": settings.rag_embedding_model,
        "chunk_size": settings.rag_chunk_size,
        "chunk_overlap": settings.rag_chunk_overlap,
    }


def plans_of(
    agent: Agent, settings: Settings, choices: BuildChoices | None = None
) -> dict[str, KnowledgePlan]:
    """What runs need to know of the agent's knowledge bases, by the names of their pointers.

    Of those that cannot be built there is none.
    """
    plans: dict[str, KnowledgePlan] = {}
    for base in bases_of(agent):
        top_k = getattr(base.node, "top_k", None) or settings.rag_top_k
        reranker = getattr(base.node, "reranker_model", None) or settings.rag_reranker_model
        try:
            pointer = _pointer(agent, base)
        except UnusablePointer:
            continue
        chosen = (choices or {}).get((agent.directory, base.node_id), {})
        wanted = effective(base.node, {**rag_defaults(settings), **chosen})
        template = settings.rag_template if base.node is None else None
        if pointer is not None:
            built = pointer.settings, top_k, pointer.address, reranker, template
            plans[base.node_id] = KnowledgePlan(*built)
        elif isinstance(wanted, BuildSettings):
            plans[base.node_id] = KnowledgePlan(wanted, top_k, None, reranker, template)
    return plans


def unbuilt_bases(
    agent: Agent, settings: Settings, plans: Mapping[str, KnowledgePlan], digest: str
) -> Iterator[UnbuiltBase]:
    """Yield the knowledge bases that runs of a bundle are to build, if nobody has built them."""
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
                agent.directory, base.node_id, digest, plan.settings, documents, files
            )


def built_bases(plans: Mapping[str, KnowledgePlan], digest: str) -> Iterator[BuiltBase]:
    """Yield the knowledge bases that runs of a bundle find built."""
    for node_id, plan in plans.items():
        if plan.address is not None:
            yield BuiltBase(node_id, digest, plan.address)


def choices_for(
    agent: Agent, settings: Settings, choose: ChooseBuild
) -> dict[tuple[Path, str], Mapping[str, Any]]:
    """Ask about each knowledge base that was not built, and cannot be built unasked."""
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
        return False  # a finding says so


def _pointer(agent: Agent, base: DescribedBase) -> Pointer | None:
    return read_pointer(pointer_file(agent.directory, base.node_id, data_dir() / "kb"))
