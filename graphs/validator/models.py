"""Rules about models: E211, E212, W027, W602."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sleipnir.graphs.attachments import KINDS
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.knowledge.build_settings import KEYWORDS_ONLY, LOCAL
from sleipnir.graphs.models import PROVIDERS, is_known_model
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.graphs.validator.context import Context, near_names, place
from sleipnir.graphs.validator.resources import Resources

# Fields that accept an alias; in a `config.yaml` these are all that name a model.
_NORMAL_FIELDS = ("model", "summarization_model", "compression_model")
# What else a field may name, in the remedy of E211.
_EXAMPLES = {
    "embedding_model": "openai:text-embedding-3-small, or local or none",
    "reranker_model": "jina_ai:jina-reranker-v2-base-multilingual",
}
_MODEL_HINT = "set SLEIPNIR_MODEL, or `model` here, to provider:model, as in openai:gpt-4o-mini"


def models_are_known(context: Context) -> Iterator[Finding]:
    """E211: models are `provider:model` with a provider that the engine can call, or aliases."""
    yield from _unknown_models(context.agent, context.resources, _models(context.graph))


def models_of_normal(agent: Agent, resources: Resources) -> Iterator[Finding]:
    """E211 for a `config.yaml`."""
    models = ((field, getattr(agent.normal, field, None)) for field in _NORMAL_FIELDS)
    named = (((field,), model) for field, model in models if model is not None)
    yield from _unknown_models(agent, resources, named)


def normal_agents_can_call_functions(agent: Agent, resources: Resources) -> Iterator[Finding]:
    """W602: a model that cannot call functions is offered none, and its first reply is its last."""
    lacks = resources.lacks_functions
    model = (agent.normal.model if agent.normal is not None else None) or resources.default_model
    if lacks is not None and model and lacks(model):
        message = f"model '{model}' cannot call functions: no tools are offered"
        yield agent.document.finding("W602", message, "model")


def _unknown_models(
    agent: Agent, resources: Resources, models: Iterable[tuple[tuple[str, ...], str]]
) -> Iterator[Finding]:
    aliases, more = resources.model_aliases, resources.model_providers
    unknown = {
        path: model
        for path, model in models
        if not (
            is_known_model(model, more)
            or (path[-1] in _NORMAL_FIELDS and model in aliases)
            or (path[-1] == "embedding_model" and model in (KEYWORDS_ONLY, LOCAL))
        )
    }
    # A name without a colon may be a misspelt alias as a whole.
    names = {model: model.partition(":")[0] for model in unknown.values()}
    known = {*PROVIDERS, *more, *aliases}
    hints = near_names(set(names.values()) - known, known)
    for path, model in unknown.items():
        hint = hints.get(names[model]) or _remedy(path[-1], model, known)
        root = agent.document.file.stem
        message = f"{place(*path, root=root)}: unknown model '{model}'"
        yield agent.document.finding("E211", message, *path, hint=hint)


def _remedy(field: str, model: str, known: Collection[str]) -> str:
    provider, colon, _ = model.partition(":")
    if colon and provider and provider not in known:
        return (
            f"no provider '{provider}' is known; for a server of your own, set "
            f"models.providers.{provider}.api_base in config.yaml"
        )
    return f"write provider:model, as in {_EXAMPLES.get(field, 'openai:gpt-5')}"


def llm_nodes_have_a_model(context: Context) -> Iterator[Finding]:
    """E212: a model is set on the node, in the graph or in the engine."""
    if context.is_written("model") or context.resources.default_model:
        return
    hint: str | None = _MODEL_HINT  # reported once only
    for node_id, _ in context.graph.nodes_of(LlmNode):
        path = ("nodes", node_id, "model")
        if not context.is_written(*path):
            message = f"llm node '{node_id}': no model set here, in the graph or as engine default"
            yield context.finding("E212", message, *path, hint=hint)
            hint = None


def models_take_what_is_attached(context: Context) -> Iterator[Finding]:
    """W027: a model known to take neither images nor PDFs."""
    lacks = context.resources.lacks_attachments
    if lacks is None:
        return
    for node_id, node in context.graph.nodes_of(LlmNode):
        model = node.model or context.graph.model or context.resources.default_model
        if node.attach and model and lacks(model) >= KINDS:
            path = ("nodes", node_id, "attach")
            message = f"{place(*path)}: model '{model}' takes neither images nor PDFs"
            hint = "choose another model, or set models.providers.NAME.attach in config.yaml"
            yield context.finding("W027", message, *path, hint=hint)


def economy_with_tools_takes_rounds(context: Context) -> Iterator[Finding]:
    """W032: with --economy, each turn of a tool loop waits for a batch of its own."""
    for node_id, node in context.graph.nodes_of(LlmNode):
        wish = context.graph.economy if node.economy is None else node.economy
        if wish and (context.graph.listed_tools(node) or context.graph.offers_agents(node)):
            own = ("nodes", node_id, "economy")
            path = own if context.is_written(*own) else ("economy",)
            message = (
                f"llm node '{node_id}': with --economy, each of its turns with tools waits for a "
                "batch of its own"
            )
            yield context.finding("W032", message, *path, hint="hours a turn: remove `economy`")


def _models(graph: Graph) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every model that the file names, with its path."""
    if graph.model is not None:
        yield ("model",), graph.model
    for node_id, node in graph.nodes.items():
        for field in node.MODELS:
            model = getattr(node, field)
            if model is not None:
                yield ("nodes", node_id, field), model
