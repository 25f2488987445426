"""Their `clients`: model servers that become `models.providers`, and what is said of others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.models import PROVIDERS, standard_provider
from sleipnir.scheduler.config.model_keys import ModelKeys
from sleipnir.scheduler.config.secrets import secrets_in
from sleipnir.scheduler.config.settings import Settings, checked_setting, resolved
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable, SettingInvalid
from sleipnir.scheduler.importing.imported import Fate, Imported, NewEntry
from sleipnir.scheduler.importing.secrets import missing_secrets

_OWN_SERVER = "openai-compatible"
_TAKEN = ("type", "name", "api_base", "api_key")
# They list what the server offers, which need not be known here.
_NOT_NEEDED = ("models",)
# Providers that take more than a key, or none: what litellm finds in the environment.
_SIGN_IN: Mapping[str, Sequence[str]] = {
    "azure": ("AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION"),
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION_NAME"),
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEXAI_PROJECT", "VERTEXAI_LOCATION"),
}
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9]")


def clients_from(
    clients: Sequence[Any], ours: Mapping[str, Any], now: Settings
) -> Iterator[NewEntry]:
    """Yield their clients, and the providers that are added to ours.

    Args:
        ours: the contents of our `config.yaml`.
        now: our current settings.
    """
    providers = ((ours.get("models") or {}).get("providers") or {}).items()
    known = {standard_provider(name): entry for name, entry in providers}
    for client in clients:
        entry = _entry(client, known, now)
        yield entry
        if entry.part.fate is Fate.COPIED:
            known[standard_provider(entry.part.name)] = _provider(entry.part.name, client)


def _entry(client: Any, known: Mapping[str, Any], now: Settings) -> NewEntry:
    if not isinstance(client, dict):
        return _kept("?", "expected a mapping with `type`")
    if client.get("type") == _OWN_SERVER and client.get("name") and client.get("api_base"):
        return _own_server(str(client["name"]), client, known, now)
    return _listed(client, now)


def _own_server(
    name: str, client: Mapping[str, Any], known: Mapping[str, Any], now: Settings
) -> NewEntry:
    provider = _provider(name, client)
    if (ours := known.get(standard_provider(name))) is not None:
        if ours == provider:
            return NewEntry(Imported("client", name, Fate.UNCHANGED))
        return _kept(name, "`models.providers` has another server of this name, which is kept")
    if ":" in name:
        return _kept(
            name, "a provider's name has no colon: add it to `models.providers` by another"
        )
    added = {"models": {"providers": {name: provider}}}
    try:
        checked_setting("models", resolved(added, now.secrets)["models"], "config.yaml")
    except (SettingInvalid, SecretsMissing, SecretsUnusable) as error:
        return _kept(name, str(error))
    key = client.get("api_key")
    notes = [*missing_secrets(key, now.secrets)]
    if dropped := [field for field in client if field not in (*_TAKEN, *_NOT_NEEDED)]:
        notes.append(f"without {', '.join(map(str, dropped))}")
    part = Imported("client", name, Fate.COPIED, tuple(notes))
    return NewEntry(part, added, {_variable(name): str(key)} if _is_literal(key) else {})


def _provider(name: str, client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of `models.providers`; a literal key is in the secrets file instead."""
    key = client.get("api_key")
    if _is_literal(key):
        # Where its name cannot be written here, it is found by the provider's name.
        key = _variable(name) if _VARIABLE.fullmatch(_variable(name)) else None
    return {"api_base": client["api_base"], **({"api_key": key} if key else {})}


def _is_literal(key: Any) -> bool:
    return isinstance(key, str) and key != "" and not secrets_in(key)


def _variable(provider: str) -> str:
    return f"{_NOT_IN_VARIABLES.sub('_', provider.upper())}_API_KEY"


def _listed(client: Mapping[str, Any], now: Settings) -> NewEntry:
    """Return what is said of a client that needs no entry, or lacks what one needs."""
    kind = str(client.get("type"))
    name = str(client.get("name") or kind)
    is_own = kind == _OWN_SERVER
    provider = standard_provider(name if is_own else kind)
    if variables := _SIGN_IN.get(provider):
        return _kept(name, f"set {listing(variables)} in the environment of workers")
    if not is_own and provider not in PROVIDERS | now.models.own_providers:
        return _kept(name, f"'{kind}' is not a provider known here")
    names = ModelKeys(now.models, now.secrets).names(provider)
    note = f"its key is `{names[0]}`, in {now.secrets.file.name} or in the environment of workers"
    if is_own:
        note += f"; a server of your own needs `models.providers.{name}.api_base`"
    return _kept(name, note)


def _kept(name: str, note: str) -> NewEntry:
    return NewEntry(Imported("client", name, Fate.KEPT, (note,)))
