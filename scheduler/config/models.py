"""The section `models` of config.yaml: aliases, keys, limits, prices and budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import ClassVar, Literal

from sleipnir.graphs.models import PROVIDERS, is_known_model, standard_model
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Used only in annotations, which are evaluated when a value is checked.
with lazy_imports():
    import pydantic

    from sleipnir.scheduler.config import value_types


class _Section:
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, kw_only=True)
class RateLimits(_Section):
    """Rate limits of a provider or model; None means unlimited."""

    requests_per_minute: value_types.AtLeastOne | None = None
    tokens_per_minute: value_types.AtLeastOne | None = None
    concurrency: value_types.AtLeastOne | None = None  # concurrent calls of all workers


@dataclass(frozen=True, kw_only=True)
class ProviderBatches(_Section):
    """How requests are sent to a provider in batches; None: as the provider allows."""

    max_requests: value_types.AtLeastOne | None = None
    max_bytes: value_types.AtLeastOne | None = None
    send_after_s: value_types.Seconds = 60.0  # age of the oldest request at which a batch is sent
    enqueued_tokens: value_types.AtLeastOne | None = None  # with the provider at a time
    open: value_types.AtLeastOne = 4  # batches with the provider at a time


@dataclass(frozen=True, kw_only=True)
class ProviderSettings(RateLimits):
    """Address, key and limits of a provider."""

    api_base: value_types.HttpUrl | None = None
    # The name of a secret or environment variable, or the value of a `{{NAME}}`.
    api_key: pydantic.SecretStr | None = None
    # Whether its models take the schema of a reply as a field of the request; None: as litellm's
    # table says, which knows nothing of a server at another address.
    structured: bool | None = None
    # What its models take besides texts; None: likewise.
    attach: tuple[Literal["image", "pdf"], ...] | None = None
    batch: ProviderBatches = ProviderBatches()


@dataclass(frozen=True, kw_only=True)
class Price(_Section):
    """USD per million tokens."""

    prompt: value_types.Dollars
    completion: value_types.Dollars
    # Prompt tokens that the provider had cached, and those it writes to its cache; None: the same
    # as others.
    cached: value_types.Dollars | None = None
    cache_write: value_types.Dollars | None = None


@dataclass(frozen=True, kw_only=True)
class RunBudget(_Section):
    """The budget of one run with its children."""

    usd: value_types.Dollars | None = None
    tokens: value_types.Tokens | None = None
    on_excess: Literal["fail", "pause"] = "fail"


@dataclass(frozen=True, kw_only=True)
class SharedBudget(_Section):
    """The shared budget of a batch's or a day's runs."""

    usd: value_types.Dollars | None = None
    tokens: value_types.Tokens | None = None
    on_excess: Literal["fail", "pause", "stop"] = "fail"


@dataclass(frozen=True, kw_only=True)
class Budgets(_Section):
    """All budgets of model calls."""

    run: RunBudget = RunBudget()
    batch: SharedBudget = SharedBudget()
    day: SharedBudget = SharedBudget()


@dataclass(frozen=True, kw_only=True)
class ModelSettings(_Section):
    """The section `models` of config.yaml; all models by their standard names."""

    aliases: Mapping[value_types.AliasName, value_types.Chain] = field(default_factory=dict)
    providers: value_types.ByProvider[ProviderSettings] = field(default_factory=dict)
    limits: value_types.ByModel[RateLimits] = field(default_factory=dict)
    prices: value_types.ByModel[Price] = field(default_factory=dict)
    budgets: Budgets = Budgets()
    # Assumed for reservations if a model's own limit is unknown.
    max_output_tokens: value_types.AtLeastOne = 4096
    # A call is made with a shorter reply than the model's longest one if a budget has room for at
    # least so many tokens.
    min_reply_tokens: value_types.AtLeastOne = 1024
    # How long a call may wait for a provider that is unreachable, throttling or out of quota before
    # it fails.
    max_wait_s: value_types.Seconds = 0.0
    batch_max_wait_s: value_types.Seconds = 3600.0  # the same for runs of batches

    @property
    def own_providers(self) -> frozenset[str]:
        """User-defined names of servers that speak OpenAI's protocol."""
        return frozenset(self.providers.keys() - PROVIDERS)

    def chain(self, model: str) -> tuple[str, ...]:
        """Return the models behind a name, in the order they are tried; at least one."""
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
