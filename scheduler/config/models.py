"""The section `models` of config.yaml: other names of models, keys, limits, prices and budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import ClassVar, Literal

from sleipnir.graphs.models import PROVIDERS, is_known_model, standard_model
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Named in annotations, which nobody reads until a value is checked.
with lazy_imports():
    import pydantic

    from sleipnir.scheduler.config import value_types


class _Section:
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, kw_only=True)
class RateLimits(_Section):
    """How much a provider, or one model, takes; what is not given is not limited."""

    requests_per_minute: value_types.AtLeastOne | None = None
    tokens_per_minute: value_types.AtLeastOne | None = None
    concurrency: value_types.AtLeastOne | None = None  # calls at once, of all workers


@dataclass(frozen=True, kw_only=True)
class ProviderSettings(RateLimits):
    """Where a provider is reached, and as whom."""

    api_base: value_types.HttpUrl | None = None
    # The name of a secret or of an environment variable, or what a `{{NAME}}` became.
    api_key: pydantic.SecretStr | None = None


@dataclass(frozen=True, kw_only=True)
class Price(_Section):
    """USD per million tokens."""

    prompt: value_types.Dollars
    completion: value_types.Dollars
    cached: value_types.Dollars | None = None  # of prompt tokens; None: as any other


@dataclass(frozen=True, kw_only=True)
class RunBudget(_Section):
    """What one run with its children may use."""

    usd: value_types.Dollars | None = None
    tokens: value_types.Tokens | None = None
    on_excess: Literal["fail", "pause"] = "fail"


@dataclass(frozen=True, kw_only=True)
class SharedBudget(_Section):
    """What the runs of a batch, or of a day, may use together."""

    usd: value_types.Dollars | None = None
    tokens: value_types.Tokens | None = None
    on_excess: Literal["fail", "pause", "stop"] = "fail"


@dataclass(frozen=True, kw_only=True)
class Budgets(_Section):
    """Bounds on what model calls cost."""

    run: RunBudget = RunBudget()
    batch: SharedBudget = SharedBudget()
    day: SharedBudget = SharedBudget()


@dataclass(frozen=True, kw_only=True)
class ModelSettings(_Section):
    """Everything that config.yaml may say about models; all models in their standard names."""

    aliases: Mapping[value_types.AliasName, value_types.Chain] = field(default_factory=dict)
    providers: value_types.ByProvider[ProviderSettings] = field(default_factory=dict)
    limits: value_types.ByModel[RateLimits] = field(default_factory=dict)
    prices: value_types.ByModel[Price] = field(default_factory=dict)
    budgets: Budgets = Budgets()
    # Assumed for reservations where a model's own limit is not known.
    max_output_tokens: value_types.AtLeastOne = 4096
    # How long a call may wait while its provider cannot be reached, limits its rate or is out of
    # quota, before it counts as failed.
    max_wait_s: value_types.Seconds = 0.0
    batch_max_wait_s: value_types.Seconds = 3600.0  # the same, in runs of a batch

    @property
    def own_providers(self) -> frozenset[str]:
        """Servers that speak OpenAI's protocol, under names of the user's."""
        return frozenset(self.providers.keys() - PROVIDERS)

    def chain(self, model: str) -> tuple[str, ...]:
        """Return the models that a name stands for, in the order they are tried; never none."""
        return self.aliases.get(model) or (standard_model(model),)

    def __post_init__(self) -> None:
        for name in sorted(self.own_providers):
            if self.providers[name].api_base is None:
                raise ValueError(
                    f"providers.{name}: unknown provider; set api_base to a server "
                    "that speaks the OpenAI protocol"
                )
        for place, model in self._models():
            if not is_known_model(model, self.own_providers):
                raise ValueError(f"{place}: unknown model '{model}': write provider:model")

    def _models(self) -> Iterator[tuple[str, str]]:
        for alias, chain in self.aliases.items():
            yield from ((f"aliases.{alias}", model) for model in chain)
        yield from (("limits", model) for model in self.limits)
        yield from (("prices", model) for model in self.prices)
