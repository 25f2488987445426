"""The limits and budgets that apply to a model call: the configuration with live changes.

A limit's name is a provider or `provider:model`; a budget's is `run`, `batch` or `day`. Live
changes are stored in Redis as texts by `NAME.SETTING`, and override the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Literal

from sleipnir.graphs.models import PROVIDERS, is_known_model, standard_model
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings, RateLimits, RunBudget, SharedBudget
from sleipnir.scheduler.errors import SettingInvalid, WrongValue

with lazy_imports():
    from sleipnir.scheduler.config import checking

Scope = Literal["run", "batch", "day"]
Changes = Mapping[str, str]

SCOPES: tuple[Scope, ...] = ("run", "batch", "day")
# Scopes with one budget per owner.
OWNED_SCOPES: tuple[Scope, ...] = ("run", "batch")
LIMIT_SETTINGS = tuple(each.name for each in fields(RateLimits))
BUDGET_SETTINGS = tuple(each.name for each in fields(SharedBudget))
# A live change to this value removes a configured limit.
UNLIMITED = "none"
_PAUSED = ".paused"


@dataclass(frozen=True, slots=True)
class Limit:
    """The limits of one name; None means unlimited."""

    name: str
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, setting) is not None for setting in LIMIT_SETTINGS)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much the calls of a run, a batch or a day may use together."""

    scope: Scope
    usd: float | None = None
    tokens: int | None = None
    on_excess: str = "fail"
    is_own: bool = False  # of one batch: Redis may have another amount, for runs that go on

    def __bool__(self) -> bool:
        return self.usd is not None or self.tokens is not None

    def is_used_up(self, usd: float, tokens: int) -> bool:
        """Return whether this usage leaves nothing of it."""
        return (self.usd is not None and usd >= self.usd) or (
            self.tokens is not None and tokens >= self.tokens
        )


class Rules:
    """The configuration with live changes applied."""

    def __init__(self, settings: ModelSettings, changes: Changes) -> None:
        self._settings = settings
        self._changes = changes
        self._limits: dict[str, Limit] = {}
        self.budgets = tuple(filter(None, map(self.budget, SCOPES)))
        # Names paused by command, with the reason given.
        self.paused = {
            name.removesuffix(_PAUSED): reason
            for name, reason in changes.items()
            if name.endswith(_PAUSED)
        }

    def paused_for(self, model: str) -> str | None:
        """Return the name paused by command that stops a model's calls; None if there is none."""
        return next((name for name in names_of(model) if name in self.paused), None)

    def limits(self, model: str) -> tuple[Limit, ...]:
        """Return the limits that a model's calls must keep, its provider's first."""
        return tuple(filter(None, map(self.limit, names_of(model))))

    def limit(self, name: str) -> Limit:
        """Return the limit of a name, possibly without any bounds."""
        found = self._limits.get(name)
        if found is None:
            found = Limit(name, **self._values(name, LIMIT_SETTINGS))
            self._limits[name] = found
        return found

    def budget(self, scope: Scope) -> Budget:
        """Return the budget of a scope, possibly without any bounds."""
        return Budget(scope, **self._values(scope, BUDGET_SETTINGS))

    def budgets_with(self, run_usd: float | None, batch_usd: float | None) -> tuple[Budget, ...]:
        """Return all budgets for a run if it, or its batch, has one of its own."""
        own: dict[Scope, Budget] = {}
        if run_usd is not None:
            own["run"] = self.own_budget(run_usd)
        if batch_usd is not None:
            own["batch"] = batch_budget(batch_usd)
        return (*own.values(), *(each for each in self.budgets if each.scope not in own))

    def own_budget(self, usd: float) -> Budget:
        """Return a run's own budget, which replaces the general one for runs."""
        return replace(self.budget("run"), usd=usd, tokens=None)

    def origin(self, name: str, setting: str) -> str:
        """Return the origin of a setting."""
        return "command" if f"{name}.{setting}" in self._changes else "configuration"

    def limit_names(self) -> Iterator[str]:
        """Yield every name with a limit or a pause set by command."""
        changed = {name.rpartition(".")[0] for name in self._changes}
        names = {*self._settings.providers, *self._settings.limits, *changed} - {*SCOPES}
        yield from (name for name in sorted(names) if self.limit(name) or name in self.paused)

    def _values(self, name: str, settings: tuple[str, ...]) -> dict[str, Any]:
        configured = _configured(self._settings, name)
        values = {setting: getattr(configured, setting, None) for setting in settings}
        if name in SCOPES and configured is not None:
            values["on_excess"] = getattr(configured, "on_excess", "fail")
        for setting in settings:
            text = self._changes.get(f"{name}.{setting}")
            if text is not None:
                values[setting] = _read(name, setting, text)
        return values


def batch_budget(usd: float) -> Budget:
    """Return a batch's own budget, which replaces the general one for batches."""
    return Budget("batch", usd=usd, is_own=True)


def names_of(model: str) -> tuple[str, str]:
    """Return the names of the limits that apply to a model's calls."""
    model = standard_model(model)
    return model.partition(":")[0], model


def parse_change(text: str, settings: ModelSettings) -> tuple[str, str, str]:
    """Parse `NAME.SETTING=VALUE` into its parts.

    Raises:
        SettingInvalid: it has another form, or names an unknown setting.
    """
    place, equals, value = text.partition("=")
    if not equals:
        raise SettingInvalid(f"'{text}': write NAME.SETTING=VALUE, as openai.concurrency=20")
    name, setting = parse_place(place, settings)
    value = value.strip()
    _read(name, setting, value)
    return name, setting, value


def parse_place(text: str, settings: ModelSettings) -> tuple[str, str]:
    """Parse `NAME.SETTING` into its parts.

    Raises:
        SettingInvalid: unknown name or setting.
    """
    name, _, setting = text.strip().rpartition(".")
    name = known_name(name, settings)
    known = BUDGET_SETTINGS if name in SCOPES else LIMIT_SETTINGS
    if setting not in known:
        raise SettingInvalid(f"'{text}': the settings of {name} are {', '.join(known)}")
    return name, setting


def known_name(name: str, settings: ModelSettings) -> str:
    """Return the standard form of a limit's or budget's name.

    Raises:
        SettingInvalid: unknown name.
    """
    if name in SCOPES:
        return name
    model = standard_model(name)
    providers = PROVIDERS | settings.own_providers
    if model in providers or is_known_model(model, settings.own_providers):
        return model
    raise SettingInvalid(
        f"'{name}' is neither a provider, nor provider:model, nor one of {', '.join(SCOPES)}"
    )


def _configured(settings: ModelSettings, name: str) -> RateLimits | RunBudget | SharedBudget | None:
    if name in SCOPES:
        budget: RunBudget | SharedBudget = getattr(settings.budgets, name)
        return budget
    return settings.limits.get(name) if ":" in name else settings.providers.get(name)


def _read(name: str, setting: str, text: str) -> Any:
    """Return the value of a live change, validated like the configuration."""
    if text == UNLIMITED and setting != "on_excess":
        return None
    section: type = RateLimits
    if name in SCOPES:
        section = RunBudget if name == "run" else SharedBudget
    try:
        return checking.checked(section, setting, text)
    except WrongValue as error:
        raise SettingInvalid(f"{name}.{setting}={text}: {error}") from error
