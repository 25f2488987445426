"""Checks which models could be called from here, and why not, without calling any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sleipnir.graphs.models import PROVIDER_KEYS, is_known_model
from sleipnir.scheduler.config.model_keys import ModelKeys
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.doctor.check import Check
from sleipnir.scheduler.errors import SecretsUnusable


def model_checks(settings: Settings) -> Iterator[Check]:
    """Yield checks of the keys and the named models; workers use their own environment."""
    keys = ModelKeys(settings.models, settings.secrets)
    try:
        yield _keys(keys)
        if settings.model is not None:
            yield _model("default model", settings.model, keys)
        for alias in settings.models.aliases:
            yield _model(f"model {alias}", alias, keys)
    except SecretsUnusable as error:
        yield Check("secrets file", "error", str(error))


def why_not(model: str, keys: ModelKeys) -> str | None:
    """Return why no model behind a name can be called, and what to do; None if one can."""
    try:
        check = _model("model", model, keys)
    except SecretsUnusable as error:
        return str(error)
    return None if check.state == "ok" else f"{check.text}: {check.remedy}"


def _keys(keys: ModelKeys) -> Check:
    providers = dict.fromkeys((*PROVIDER_KEYS, *keys.settings.providers))
    if found := [provider for provider in providers if keys.has(provider)]:
        return Check("model keys", "ok", f"found for {', '.join(found)}")
    return Check(
        "model keys",
        "warning",
        "none in this environment, none in the secrets file; llm nodes of hosted models will fail",
        "set one where workers run, such as OPENAI_API_KEY or ANTHROPIC_API_KEY",
    )


def _model(name: str, model: str, keys: ModelKeys) -> Check:
    """Check a model, or an alias, of whose chain one usable model is enough."""
    chain = keys.settings.chain(model)
    obstacles = {link: found for link in chain if (found := _obstacle(link, keys))}
    usable = [link for link in chain if link not in obstacles]
    reasons = "; ".join(f"{link} {reason}" for link, (reason, _) in obstacles.items())
    if not usable:
        remedies = dict.fromkeys(remedy for _, remedy in obstacles.values())
        return Check(name, "warning", reasons, "; ".join(remedies))
    return Check(name, "ok", ", then ".join(usable) + (f" (but {reasons})" if reasons else ""))


def _obstacle(model: str, keys: ModelKeys) -> tuple[str, str] | None:
    """Return why a model cannot be called, and what to do; None if it can."""
    if not is_known_model(model, keys.settings.own_providers):
        return "is not known", "write provider:model, or an alias of models.aliases"
    missing: Sequence[str] = keys.missing(model.partition(":")[0])
    if missing:
        return "has no key", f"set {' or '.join(missing)}"
    return None
