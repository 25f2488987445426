"""The settings in their `config.yaml`, and which of them are added to ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import yaml

from sleipnir.graphs.document.document import Document
from sleipnir.graphs.knowledge.build_settings import KEYWORDS_ONLY, LOCAL
from sleipnir.graphs.models import OTHER_NAMES, PROVIDERS, is_known_model
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.scheduler.config.settings import FIELDS, Settings, checked_setting, resolved
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable, SettingInvalid
from sleipnir.scheduler.importing.clients import clients_from
from sleipnir.scheduler.importing.imported import Fate, Imported, NewEntry, added_by_hand
from sleipnir.scheduler.importing.our_files import merged, with_entries
from sleipnir.scheduler.importing.secrets import missing_secrets

CONFIG = "config.yaml"
CLIENTS = "clients"
LOADERS = "document_loaders"

_EMBEDDING = "rag_embedding_model"
_MODELS = ("model", _EMBEDDING, "rag_reranker_model")
# Settings that mean the same here.
_TAKEN = (
    *_MODELS,
    *("temperature", "top_p", "compression_threshold", "tool_timeout"),
    *("rag_chunk_size", "rag_chunk_overlap", "rag_top_k"),
    *("mapping_tools", "mcp_server_support", "mapping_mcp_servers", "mcp_tools"),
)
_INSTEAD: Mapping[str, str] = {
    CLIENTS: "expected a list of clients",
    LOADERS: "expected a mapping of commands",
    "visible_tools": "there it chooses the tools of the prompt and of roles, while an agent has "
    "all of its `global_tools`; here it would take tools from agents",
}
_OURS_IS_KEPT = "Sleipnir's config.yaml has another value, which is kept"


@dataclass(frozen=True, slots=True)
class NewConfig:
    """What becomes of their `config.yaml`."""

    parts: tuple[Imported, ...]
    settings: Settings  # ours, as they will be
    text: str | None  # of our file; None: unchanged
    keys: Mapping[str, str]  # of model servers, by the names of their secrets


def config_from(document: Document, text: str, now: Settings) -> NewConfig:
    """Return what of their settings is added to ours.

    Args:
        document: their file.
        text: of our file.
        now: our settings.

    Raises:
        YAMLError: our file is no YAML.
    """
    ours = yaml.safe_load(text) or {}
    theirs = document.data if isinstance(document.data, dict) else {}
    entries: list[NewEntry] = []
    # First: a model may be one of their servers.
    if isinstance(clients := theirs.get(CLIENTS), list):
        for index, entry in enumerate(clients_from(clients, ours, now)):
            entries.append(entry.at(_place(document, CLIENTS, index)))
    servers = with_settings(now, ours, _added(entries))
    entries += _settings(document, theirs, ours, servers)
    added = _added(entries)
    whole = with_entries(text, added) if added else None
    parts = tuple(entry.part for entry in entries)
    if added and whole is None:
        return NewConfig(tuple(map(added_by_hand, parts)), now, None, {})
    keys = {name: key for entry in entries for name, key in entry.secrets.items()}
    return NewConfig(parts, with_settings(now, ours, added), whole, keys)


def _added(entries: Iterable[NewEntry]) -> dict[str, Any]:
    return reduce(merged, (entry.settings for entry in entries), {})


def _settings(
    document: Document, theirs: Mapping[str, Any], ours: Mapping[str, Any], now: Settings
) -> Iterator[NewEntry]:
    """Yield their settings, except clients; `now` has the model servers that are added."""
    for name, value in theirs.items():
        if value is None or (name == CLIENTS and isinstance(value, list)):
            continue
        if name == LOADERS and isinstance(value, dict):
            yield from _loaders(document, value, ours.get(LOADERS) or {}, now.secrets)
            continue
        why = _why_not(name, value, ours, now)
        is_new = why is None and ours.get(name) != value
        fate = Fate.KEPT if why else Fate.COPIED if is_new else Fate.UNCHANGED
        part = Imported("setting", name, fate, (why,) if why else ())
        yield NewEntry(part, {name: value} if is_new else {}).at(_place(document, name))


def _place(document: Document, *path: str | int) -> str:
    return f"{CONFIG}:{document.position(*path)[0]}"


def _why_not(name: str, value: Any, ours: Mapping[str, Any], now: Settings) -> str | None:
    """Return why a setting is not imported, and what to do; None if it is."""
    if name not in _TAKEN:
        if name in _INSTEAD:
            return _INSTEAD[name]
        if name in FIELDS:
            return "Sleipnir has a setting of this name: set it in its config.yaml if you want it"
        return "it has no counterpart here"
    if name in ours:
        return None if ours[name] == value else _OURS_IS_KEPT
    try:
        checked_setting(name, now.secrets.resolve(value), CONFIG)
    except (SettingInvalid, SecretsMissing, SecretsUnusable) as error:
        return str(error)
    if name in _MODELS and not _is_callable(name, str(value), now.models):
        known = ", ".join(sorted({*now.models.own_providers, *OTHER_NAMES} - PROVIDERS))
        return f"unknown provider of '{value}': name its server in `models.providers` ({known}, …)"
    return None


def _is_callable(setting: str, model: str, models: ModelSettings) -> bool:
    known = {"model": models.aliases, _EMBEDDING: (KEYWORDS_ONLY, LOCAL)}.get(setting, ())
    return model in known or is_known_model(model, models.own_providers)


def _loaders(
    document: Document, theirs: Mapping[str, Any], ours: Mapping[str, Any], secrets: Secrets
) -> Iterator[NewEntry]:
    """Yield the commands that convert documents, one by one."""
    for name, command in theirs.items():
        fate, notes = _loader(str(name), command, ours, secrets)
        part = Imported("document loader", str(name), fate, notes)
        added = {LOADERS: {name: command}} if fate is Fate.COPIED else {}
        yield NewEntry(part, added).at(_place(document, LOADERS, name))


def _loader(
    name: str, command: Any, ours: Mapping[str, Any], secrets: Secrets
) -> tuple[Fate, tuple[str, ...]]:
    if name in ours:
        is_ours = ours[name] == command
        return (Fate.UNCHANGED, ()) if is_ours else (Fate.KEPT, (_OURS_IS_KEPT,))
    try:
        checked_setting(LOADERS, {name: command}, CONFIG)
    except SettingInvalid as error:
        return Fate.KEPT, (str(error),)
    return Fate.COPIED, missing_secrets(command, secrets)


def with_settings(now: Settings, ours: Mapping[str, Any], added: Mapping[str, Any]) -> Settings:
    """Return our settings as they will be.

    Args:
        ours: the contents of our `config.yaml`.
        added: what is added to it.
    """
    whole = merged(ours, added)
    values = resolved({name: whole[name] for name in added}, now.secrets)
    taken = {name: checked_setting(name, value, CONFIG) for name, value in values.items()}
    return replace(now, **taken)
