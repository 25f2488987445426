"""The models that an agent calls, and those of them whose price is not known."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.bundles import archive
from sleipnir.graphs.bundles.packed import packed_agent
from sleipnir.graphs.errors import GraphError
from sleipnir.graphs.knowledge.build_settings import KEYWORDS_ONLY, LOCAL
from sleipnir.graphs.normal_agent import is_normal
from sleipnir.graphs.schema import AgentNode, Graph, LlmNode, RagNode
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.config.model_table import is_priced
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.process.temporary import OwnDirectory
from sleipnir.scheduler.store.bundles import Bundles


def unpriced_models(agent: PreparedAgent, bundles: Bundles, settings: Settings) -> list[str]:
    """Return the models of unknown price that an agent, or one that its nodes run, may call."""
    models = dict.fromkeys(
        model
        for graph in graphs_of(agent, bundles)
        for name in (*_asked(graph, settings), *_of_searches(graph, settings))
        for model in settings.models.chain(name)
    )
    return [model for model in models if not is_priced(settings.models, model)]


def _asked(graph: Graph, settings: Settings) -> Iterator[str]:
    """Yield the models that nodes of a graph ask."""
    default = graph.model or settings.model
    named = [node.model for _, node in graph.nodes_of(LlmNode)]
    if is_normal(graph) or any(
        node.output_schema is not None for _, node in graph.nodes_of(AgentNode)
    ):
        named.append(None)
    yield from filter(None, (name or default for name in named))


def _of_searches(graph: Graph, settings: Settings) -> Iterator[str]:
    """Yield the models that embed questions and rank what is found."""
    for _, node in graph.nodes_of(RagNode):
        embedding = node.embedding_model or settings.rag_embedding_model
        if embedding not in (None, LOCAL, KEYWORDS_ONLY):
            yield embedding
        if reranker := node.reranker_model or settings.rag_reranker_model:
            yield reranker


def graphs_of(agent: PreparedAgent, bundles: Bundles) -> Iterator[Graph]:
    """Yield the graphs of an agent and of those that its nodes run."""
    seen, found = {agent.digest}, [agent.graph]
    while found:
        graph = found.pop()
        yield graph
        for _, node in graph.nodes_of(AgentNode):
            digest = agent.agents.get(node.agent)
            if digest is None or digest in seen:
                continue
            seen.add(digest)
            child = _graph_in(bundles.get(digest), digest)
            if child is not None:
                found.append(child)


def _graph_in(data: bytes | None, digest: str) -> Graph | None:
    if data is None:
        return None
    with OwnDirectory() as scratch:
        archive.unpack(data, digest, scratch.path / "bundle")
        try:
            return packed_agent(scratch.path / "bundle")[0]
        except (GraphError, OSError):
            return None
