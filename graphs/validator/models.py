"""Rules about models: E211, E212."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.models import PROVIDERS, is_known_model
from sleipnir.graphs.schema import Graph, LlmNode, RagNode
from sleipnir.graphs.validator.context import Context, near_names, place


def models_are_known(context: Context) -> Iterator[Finding]:
    """E211: `provider:model` with a provider the engine can call, or one of its aliases."""
    aliases, more = context.resources.model_aliases, context.resources.model_providers
    unknown = {
        path: model
        for path, model in _models(context.graph)
        if not is_known_model(model, more) and not (path[-1] == "model" and model in aliases)
    }
    # Of a name without a colon the whole may be meant for an alias.
    names = {model: model.partition(":")[0] for model in unknown.values()}
    known = {*PROVIDERS, *more, *aliases}
    hints = near_names(set(names.values()) - known, known)
    for path, model in unknown.items():
        hint = hints.get(names[model], "write provider:model, as in openai:gpt-5")
        yield context.finding("E211", f"{place(*path)}: unknown model '{model}'", *path, hint=hint)


def llm_nodes_have_a_model(context: Context) -> Iterator[Finding]:
    """E212: set on the node, in the graph, or in the engine."""
    if context.is_written("model") or context.resources.default_model:
        return
    for node_id, _ in context.graph.nodes_of(LlmNode):
        path = ("nodes", node_id, "model")
        if not context.is_written(*path):
            message = f"llm node '{node_id}': no model set here, in the graph or as engine default"
            yield context.finding("E212", message, *path)


def _models(graph: Graph) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every model the file names, and where."""
    if graph.model is not None:
        yield ("model",), graph.model
    for node_id, node in graph.nodes.items():
        fields: tuple[str, ...] = ()
        if isinstance(node, LlmNode):
            fields = ("model",)
        elif isinstance(node, RagNode):
            fields = ("embedding_model", "reranker_model")
        for field in fields:
            model = getattr(node, field)
            if model is not None:
                yield ("nodes", node_id, field), model
