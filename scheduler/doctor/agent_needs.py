"""Finds what a run of an agent needs of this machine, and what of it is missing."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.knowledge.bases import DescribedBase, bases_of
from sleipnir.graphs.knowledge.build_settings import KEYWORDS_ONLY, LOCAL
from sleipnir.graphs.models import is_known_model
from sleipnir.graphs.schema import LlmNode
from sleipnir.graphs.validator.requirements import Requirement, requirements_of
from sleipnir.graphs.validator.resources import Resources
from sleipnir.scheduler.config.mcp_servers import configured_servers
from sleipnir.scheduler.config.model_keys import ModelKeys
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.doctor.models import why_not
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable

_NO_MODEL = "a model: set `model` in config.yaml, or SLEIPNIR_MODEL"


def needs_of(agent: Agent, settings: Settings, resources: Resources) -> list[Requirement]:
    """Return each requirement once, models first; without those of other agents that it starts."""
    found: dict[str, Requirement] = {}
    for need in (
        *_models(agent, settings),
        *requirements_of(agent, resources),
        *_secrets(agent, settings),
    ):
        if need.what not in found or need.lacking:
            found[need.what] = need
    return list(found.values())


def uncallable_models(agent: Agent, settings: Settings) -> list[str]:
    """Return why known models of an agent and of its knowledge bases cannot be called from here."""
    keys = ModelKeys(settings.models, settings.secrets)
    named = [model or settings.model for model in _named_models(agent)]
    for base in bases_of(agent):
        named += _models_of_base(base, settings)
    found = dict.fromkeys(
        why_not(model, keys)
        for model in dict.fromkeys(named)
        if model not in (None, KEYWORDS_ONLY, LOCAL) and _is_known(model, settings)
    )
    return [why for why in found if why is not None]


def _is_known(model: str, settings: Settings) -> bool:
    """Return whether there is such a model, as far as the validator can tell."""
    models = settings.models
    return all(is_known_model(link, models.own_providers) for link in models.chain(model))


def _models_of_base(base: DescribedBase, settings: Settings) -> Iterator[str | None]:
    yield getattr(base.node, "embedding_model", None) or settings.rag_embedding_model
    yield getattr(base.node, "reranker_model", None) or settings.rag_reranker_model


def _models(agent: Agent, settings: Settings) -> Iterator[Requirement]:
    """Yield the requirement `model` for each model; it is lacking if one cannot be called."""
    keys = ModelKeys(settings.models, settings.secrets)
    for model in dict.fromkeys(_named_models(agent)):
        if wanted := model or settings.model:
            yield Requirement("model", why_not(wanted, keys))
        else:
            yield Requirement("model", _NO_MODEL)


def _named_models(agent: Agent) -> Iterator[str | None]:
    if agent.normal is not None:
        yield agent.normal.model
    elif agent.graph is not None:
        for _, node in agent.graph.nodes_of(LlmNode):
            yield node.model or agent.graph.model


def _secrets(agent: Agent, settings: Settings) -> Iterator[Requirement]:
    """Yield secrets needed by its MCP servers and by defaults of its variables."""
    graph = agent.runnable
    if graph is None:
        return
    config, _ = configured_servers(settings)
    texts = {
        f"MCP server {server}": config.entries[server]
        for server in config.resolve(graph.mcp_servers)
        if server in config.entries
    }
    texts |= {f"variable {each.name}": each.default for each in graph.variables}
    for what, text in texts.items():
        try:
            settings.secrets.resolve(text)
        except (SecretsMissing, SecretsUnusable) as error:
            yield Requirement(what, str(error))
