"""Rules about knowledge bases: E207, E208, E211, E217, E223, E609, W004, W601, W604, W605."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sleipnir.graphs.dataflow import conditions
from sleipnir.graphs.document.finding import Finding, printable
from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.knowledge.bases import bases_of
from sleipnir.graphs.knowledge.build_settings import (
    KEYWORDS_ONLY,
    LOCAL,
    LOCAL_MISSING,
    LOCAL_REMEDY,
    BuildSettings,
    effective,
    wanted,
)
from sleipnir.graphs.knowledge.local_files import local_files_hash
from sleipnir.graphs.knowledge.pointer import (
    Pointer,
    UnusablePointer,
    changes,
    pointer_file,
    read_pointer,
)
from sleipnir.graphs.knowledge.rag_template import DEFAULT, lacking
from sleipnir.graphs.knowledge.sources import classify, is_absolute, may_read
from sleipnir.graphs.models import is_known_model
from sleipnir.graphs.schema import RagNode
from sleipnir.graphs.validator.context import Context
from sleipnir.graphs.validator.documents import LocalDocuments
from sleipnir.graphs.validator.resources import Resources
from sleipnir.records import dataclass

# Suggested where no embedding model is configured: this works without one.
_WITHOUT_MODEL = "SLEIPNIR_RAG_EMBEDDING_MODEL=none searches for words, without a model"
_ALLOW_ABSOLUTE = (
    "set rag_absolute_paths: true in config.yaml, or move it into the agent's directory"
)
_AGENT_FILE_STEMS = ("graph", "config")


def documents_stay_inside(context: Context) -> Iterator[Finding]:
    """E207: local documents belong to the agent, unless a setting of the engine allows others."""
    for base in _bases_of_graph(context):
        yield from _documents_stay_inside(base)


def documents_can_be_read(context: Context) -> Iterator[Finding]:
    """E223: what an unbuilt knowledge base is to be built from."""
    for base in _bases_of_graph(context):
        yield from _documents_can_be_read(base)


def knowledge_is_there(context: Context) -> Iterator[Finding]:
    """E208: a knowledge base must be usable; for a run, built or buildable without asking."""
    for base in _bases_of_graph(context):
        is_for_run = context.resources.require_knowledge
        why = base.why_not_there() if is_for_run else base.why_unusable()
        if why is not None:
            yield base.finding("E208", why)


def models_are_there(context: Context) -> Iterator[Finding]:
    """E211: the model `local` needs an extra; models in the engine's settings must be known."""
    for base in _bases_of_graph(context):
        yield from _models_are_there(base)


def knowledge_is_as_it_was_built(context: Context) -> Iterator[Finding]:
    """W601, W605; and W604 when a run starts."""
    for base in _bases_of_graph(context):
        yield from _differences(base)
        yield from _keywords_only(base)


def knowledge_overwrites_no_agent_file(context: Context) -> Iterator[Finding]:
    """E217: a knowledge base is kept in `<node id>.yaml`."""
    for node_id, _ in context.graph.nodes_of(RagNode):
        if node_id in _AGENT_FILE_STEMS:
            message = f"rag node '{node_id}': this id would overwrite {node_id}.yaml"
            yield context.finding("E217", message, "nodes", node_id)


def retrieved_text_is_kept(context: Context) -> Iterator[Finding]:
    """W004: a rag node's result is lost if no `state_updates`, no condition and no map takes it."""
    for node_id, node in context.graph.nodes_of(RagNode):
        path = ("nodes", node_id, "state_updates")
        is_result = node_id in context.branches and not node.has_next
        is_asked = any(RagNode.SCOPED in parse(text).names for _, text in conditions(node))
        is_lost = not (node.state_updates or is_result or is_asked)
        if is_lost and (node.state_updates is not None or not context.is_written(*path)):
            message = f"rag node '{node_id}' has no state_updates: its result is lost"
            yield context.finding("W004", message, *path)


def findings_of_normal(agent: Agent, resources: Resources) -> Iterator[Finding]:
    """E207, E211, E223, E609, W601, W604, W605 for the documents of a `config.yaml`."""
    for described in bases_of(agent):
        base = _Base(agent, resources, described.node_id, described.documents, None, ())
        yield from _documents_stay_inside(base)
        yield from _documents_can_be_read(base)
        yield from _models_are_there(base)
        if missing := lacking(resources.rag_template or DEFAULT):
            message = f"rag_template, a setting of the engine, lacks {' and '.join(missing)}"
            yield base.finding("E609", message)
        why = base.why_not_there()
        if why is not None:
            yield base.finding("W601", why)
        yield from _differences(base)
        yield from _keywords_only(base)


def obstacles(agent: Agent, resources: Resources) -> Iterator[str]:
    """Yield why knowledge bases of an agent are neither built nor buildable without asking."""
    for described in bases_of(agent):
        path = ("nodes", described.node_id) if described.node is not None else ()
        base = _Base(agent, resources, described.node_id, described.documents, described.node, path)
        why = base.why_not_there()
        if why is not None:
            yield base.finding("E208", why).message
        yield from (finding.message for finding in _models_are_there(base))


@dataclass(frozen=True, slots=True)
class _Base:
    """One knowledge base of an agent."""

    agent: Agent
    resources: Resources
    node_id: str
    documents: Sequence[str]
    node: RagNode | None  # None for a normal agent
    path: tuple[str, ...]  # the node's path in the file

    def finding(
        self, code: str, message: str, *path: str | int, hint: str | None = None
    ) -> Finding:
        """Return a finding about the knowledge base; for a normal agent it names no node."""
        where = f"rag node '{self.node_id}': " if self.node is not None else ""
        place = (*self.path, *path) or ("documents",)
        return self.agent.document.finding(code, where + message, *place, hint=hint)

    @property
    def defaults(self) -> dict[str, Any]:
        """Return the build settings that apply where the node sets none."""
        chosen = self.resources.rag_choices.get((self.agent.directory, self.node_id), {})
        return {**self.resources.rag_defaults, **chosen}

    def pointer(self) -> Pointer | None:
        """Return the pointer of the knowledge base as it was built; None if it was not.

        Raises:
            UnusablePointer: there is one, but it is unusable.
        """
        return read_pointer(
            pointer_file(self.agent.directory, self.node_id, self.resources.knowledge_directory)
        )

    def why_not_there(self) -> str | None:
        """Return why there is none, and none can be built without asking; None otherwise."""
        if (why := self.why_unusable()) is not None or self.pointer() is not None:
            return why
        found = effective(self.node, self.defaults)
        if isinstance(found, BuildSettings):
            return None
        missing = ", ".join(_setting(field) for field in found.missing)
        message = f"knowledge base not built; set {missing} or build it once"
        return f"{message}; {_WITHOUT_MODEL}" if "embedding_model" in found.missing else message

    def why_unusable(self) -> str | None:
        """Return why it can be neither used nor built, whatever anybody answers; None otherwise."""
        if self.node_id in _AGENT_FILE_STEMS:
            return None  # E217 says so
        try:
            if self.pointer() is not None:
                return None
        except UnusablePointer as error:
            return f"{self.node_id}.yaml cannot be used, {error}; build it again"
        found = effective(self.node, self.defaults)
        return None if isinstance(found, BuildSettings) else found.problem or None

    def embedding_model(self) -> str | None:
        """Return the embedding model of a run's searches, if it is known."""
        try:
            pointer = self.pointer()
        except UnusablePointer:
            return None
        if pointer is not None:
            return pointer.embedding_model
        model: str | None = wanted(self.node, self.defaults)["embedding_model"]
        return model


def _setting(field: str) -> str:
    """Return the name of a missing field, with the setting in which it is usually set."""
    is_decided_for_all = field == "embedding_model"
    return f"{field} (for all agents: rag_{field})" if is_decided_for_all else field


def _bases_of_graph(context: Context) -> Iterator[_Base]:
    for base in bases_of(context.agent):
        path = ("nodes", base.node_id)
        yield _Base(context.agent, context.resources, base.node_id, base.documents, base.node, path)


def _documents_stay_inside(base: _Base) -> Iterator[Finding]:
    resources = base.resources
    for index, document in enumerate(base.documents):
        entry = classify(document, resources.document_loaders)
        # It may be a loader's prefix even if the loader is configured on another machine only.
        name, colon, rest = entry.target.partition(":")
        if entry.kind == "local" and colon and "/" not in name:
            entry = classify(f"{name}:{rest}", [name])
        allowed = may_read(base.agent.directory, entry, allow_absolute=resources.rag_absolute_paths)
        if not allowed:
            message = f"document '{document}' lies outside the agent directory"
            hint = _ALLOW_ABSOLUTE if is_absolute(entry.target) else None
            yield base.finding("E207", message, "documents", index, hint=hint)


def _documents_can_be_read(base: _Base) -> Iterator[Finding]:
    resources, directory = base.resources, base.agent.directory
    limit, loaders = resources.document_bytes, resources.document_loaders
    if limit is None or base.why_unusable() is not None or base.pointer() is not None:
        return
    absolute = resources.rag_absolute_paths
    missing = resources.missing_loaders
    documents = LocalDocuments(directory, loaders, limit, absolute=absolute, missing=missing)
    for index, document in enumerate(base.documents):
        entry = classify(document, loaders)
        if not may_read(directory, entry, allow_absolute=absolute):
            continue  # E207 says so
        if why := documents.problem(entry):
            message = printable(f"document '{document}': {why}")
            hint = "leave it out of `documents`, or have a loader convert it (document_loaders)"
            yield base.finding("E223", message, "documents", index, hint=hint)


def _models_are_there(base: _Base) -> Iterator[Finding]:
    yield from _embedding_model_is_there(base)
    reranker = base.resources.rag_reranker_model
    # A model set on the node itself is checked with the other models of the file.
    if reranker is None or getattr(base.node, "reranker_model", None) is not None:
        return
    if not is_known_model(reranker, base.resources.model_providers):
        hint = "set it to provider:model, as in jina_ai:jina-reranker-v2-base-multilingual"
        yield base.finding("E211", f"rag_reranker_model: unknown model '{reranker}'", hint=hint)


def _embedding_model_is_there(base: _Base) -> Iterator[Finding]:
    model = base.embedding_model()
    if model == LOCAL and not base.resources.has_local_model:
        yield base.finding("E211", LOCAL_MISSING, "embedding_model", hint=LOCAL_REMEDY)
    # A model set on the node itself is checked with the other models of the file.
    is_set_here = base.node is not None and base.node.embedding_model is not None
    setting = base.defaults.get("embedding_model")
    if is_set_here or setting != model or model in (None, KEYWORDS_ONLY, LOCAL):
        return
    if not is_known_model(model, base.resources.model_providers):
        hint = "set it to provider:model, as in openai:text-embedding-3-small, to local or to none"
        yield base.finding("E211", f"rag_embedding_model: unknown model '{model}'", hint=hint)


def _keywords_only(base: _Base) -> Iterator[Finding]:
    """W604, when a run starts, unless the author has decided it."""
    is_decided = base.node is not None and base.node.embedding_model == KEYWORDS_ONLY
    if is_decided or not base.resources.require_knowledge:
        return
    if base.embedding_model() == KEYWORDS_ONLY:
        yield base.finding("W604", "knowledge base without embeddings: searched by keywords only")


def _differences(base: _Base) -> Iterator[Finding]:
    """W605, W601: what would be built differently today; searches use what was built."""
    try:
        pointer = base.pointer()
    except UnusablePointer:
        return  # E208 reports it
    if pointer is None:
        return
    for message in changes(pointer, wanted(base.node, base.defaults), base.documents):
        yield base.finding("W605", message)
    files = local_files_hash(
        base.agent.directory,
        pointer.documents,
        base.resources.document_loaders,
        allow_absolute=base.resources.rag_absolute_paths,
    )
    if files != pointer.files_hash:
        yield base.finding("W601", "files have changed since the knowledge base was built")
