"""The section `models` of config.yaml: other names of models, keys, limits, prices and budgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from sleipnir.graphs.models import PROVIDERS, is_known_model, standard_model, standard_provider

T = TypeVar("T")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _alias(name: str) -> str:
    if not name.strip() or ":" in name:
        raise ValueError("an alias must not contain a colon")
    return name


def _no_duplicates(names: Iterable[str], value: Mapping[str, T]) -> dict[str, T]:
    """The mapping under these standard names."""
    result: dict[str, T] = {}
    for name, entry in zip(names, value.values(), strict=True):
        if name in result:
            raise ValueError(f"'{name}' is given twice, under two of its names")
        result[name] = entry
    return result


def _by_model(value: Mapping[str, T]) -> dict[str, T]:
    return _no_duplicates(map(standard_model, value), value)


def _by_provider(value: Mapping[str, T]) -> dict[str, T]:
    return _no_duplicates(map(standard_provider, value), value)


AliasName = Annotated[str, AfterValidator(_alias)]
# Tried in order, when one fails for good or is exhausted.
Chain = Annotated[
    tuple[Annotated[str, AfterValidator(standard_model)], ...],
    BeforeValidator(_listed),
    Field(min_length=1),
]
PerMinute = Annotated[int, Field(ge=1)]
Dollars = Annotated[float, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RateLimits(_Section):
    """How much a provider, or one model, takes; what is not given is not limited."""

    requests_per_minute: PerMinute | None = None
    tokens_per_minute: PerMinute | None = None
    concurrency: Annotated[int, Field(ge=1)] | None = None  # calls at once, of all workers


class ProviderSettings(RateLimits):
    """Where a provider is reached, and as whom."""

    api_base: str | None = Field(None, pattern=r"^https?://")
    # The name of a secret or of an environment variable, or what a `{{NAME}}` became.
    api_key: SecretStr | None = None


class Price(_Section):
    """USD per million tokens."""

    prompt: Dollars
    completion: Dollars
    cached: Dollars | None = None  # of prompt tokens; None: as any other


class RunBudget(_Section):
    """What one run with its children may use."""

    usd: Dollars | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    on_excess: Literal["fail", "pause"] = "fail"


class SharedBudget(_Section):
    """What the runs of a batch, or of a day, may use together."""

    usd: Dollars | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    on_excess: Literal["fail", "pause", "stop"] = "fail"


class Budgets(_Section):
    """Bounds on what model calls cost."""

    run: RunBudget = RunBudget()
    batch: SharedBudget = SharedBudget()
    day: SharedBudget = SharedBudget()


class ModelSettings(_Section):
    """Everything that config.yaml may say about models; all models in their standard names."""

    aliases: Mapping[AliasName, Chain] = {}
    providers: Annotated[Mapping[str, ProviderSettings], AfterValidator(_by_provider)] = {}
    limits: Annotated[Mapping[str, RateLimits], AfterValidator(_by_model)] = {}
    prices: Annotated[Mapping[str, Price], AfterValidator(_by_model)] = {}
    budgets: Budgets = Budgets()
    # Assumed for reservations where a model's own limit is not known.
    max_output_tokens: Annotated[int, Field(ge=1)] = 4096
    # How long a call may wait while its provider cannot be reached, limits its rate or is out of
    # quota, before it counts as failed.
    max_wait_s: Annotated[float, Field(ge=0)] = 0.0
    batch_max_wait_s: Annotated[float, Field(ge=0)] = 3600.0  # the same, in runs of a batch

    @property
    def own_providers(self) -> frozenset[str]:
        """Servers that speak OpenAI's protocol, under names of the user's."""
        return frozenset(self.providers.keys() - PROVIDERS)

    def chain(self, model: str) -> tuple[str, ...]:
        """The models that a name stands for, in the order they are tried; never none."""
        return self.aliases.get(model) or (standard_model(model),)

    @model_validator(mode="after")
    def _names_are_known(self) -> ModelSettings:
        for name in sorted(self.own_providers):
            if self.providers[name].api_base is None:
                raise ValueError(
                    f"providers.{name}: unknown provider; set api_base to a server "
                    "that speaks the OpenAI protocol"
                )
        for place, model in self._models():
            if not is_known_model(model, self.own_providers):
                raise ValueError(f"{place}: unknown model '{model}': write provider:model")
        return self

    def _models(self) -> Iterator[tuple[str, str]]:
        for alias, chain in self.aliases.items():
            yield from ((f"aliases.{alias}", model) for model in chain)
        yield from (("limits", model) for model in self.limits)
        yield from (("prices", model) for model in self.prices)
