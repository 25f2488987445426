"""Entries that are added to existing files of ours: settings, MCP servers, secrets.

Each function returns the fate of the entries, and the file's new text; None: unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from sleipnir.graphs.document.document import Document
from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.files import MIB, read_text
from sleipnir.graphs.mcp.config import McpConfig
from sleipnir.graphs.models import OTHER_NAMES, PROVIDER_KEYS, PROVIDERS, is_known_model
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.scheduler.config.settings import FIELDS, Settings, checked_setting
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable, SettingInvalid
from sleipnir.scheduler.importing.imported import Fate, Imported

# Settings that mean the same here.
TAKEN = (
    *("model", "temperature", "top_p"),
    *("mapping_tools", "visible_tools", "mcp_server_support", "mapping_mcp_servers"),
    "document_loaders",
)

_KEYS = frozenset(name for names in PROVIDER_KEYS.values() for name in names)
_INSTEAD: Mapping[str, str] = {
    "clients": "name the servers and keys in `models.providers` of Sleipnir's config.yaml",
}


@dataclass(frozen=True, slots=True)
class Added:
    """Entries, and the new text of their file; None if there is nothing to add."""

    parts: tuple[Imported, ...] = ()
    text: str | None = None


def settings_from(document: Document, ours: Mapping[str, Any], text: str, now: Settings) -> Added:
    """Return the settings of their `config.yaml` that are added to ours.

    Args:
        document: their file.
        ours: the contents of our file; `text` is its text.
        now: the current settings.
    """
    theirs = document.data if isinstance(document.data, dict) else {}
    parts, new = [], {}
    for name, value in theirs.items():
        if value is None:
            continue
        place = f"config.yaml:{document.position(name)[0]}"
        why = _why_not(name, value, ours, now)
        if why is None and ours.get(name) != value:
            new[name] = value
        fate = Fate.KEPT if why else Fate.COPIED if name in new else Fate.UNCHANGED
        parts.append(Imported("setting", name, fate, (f"{place}: {why}",) if why else ()))
    added = yaml.safe_dump(new, sort_keys=False, allow_unicode=True) if new else ""
    return _appended(parts, text, added, {**ours, **new}, yaml.SafeLoader)


def _why_not(name: str, value: Any, ours: Mapping[str, Any], now: Settings) -> str | None:
    """Return why a setting is not imported, and what to do; None if it is."""
    if name not in TAKEN:
        if name in _INSTEAD:
            return _INSTEAD[name]
        if name in FIELDS:
            return "Sleipnir has a setting of this name: set it in its config.yaml if you want it"
        return "it has no counterpart here"
    if name in ours:
        return (
            None
            if ours[name] == value
            else "Sleipnir's config.yaml has another value, which is kept"
        )
    try:
        checked_setting(name, now.secrets.resolve(value), "config.yaml")
    except (SettingInvalid, SecretsMissing, SecretsUnusable) as error:
        return str(error)
    if name == "model" and not _is_callable(str(value), now.models):
        known = ", ".join(sorted({*now.models.own_providers, *OTHER_NAMES} - PROVIDERS))
        return f"unknown provider of '{value}': name its server in `models.providers` ({known}, …)"
    return None


def _is_callable(model: str, models: ModelSettings) -> bool:
    return model in models.aliases or is_known_model(model, models.own_providers)


def servers_from(theirs: McpConfig, ours: McpConfig, secrets: Secrets) -> Added:
    """Return the MCP servers that we do not have yet, and the secrets that they still need."""
    parts, new = [], {}
    for name, entry in theirs.entries.items():
        if name not in ours.entries:
            new[name] = entry
            parts.append(Imported("MCP server", name, Fate.COPIED, _missing(entry, secrets)))
        elif ours.entries[name] == entry:
            parts.append(Imported("MCP server", name, Fate.UNCHANGED, _missing(entry, secrets)))
        else:
            note = "Sleipnir's mcp.json has another server of this name, which is kept"
            parts.append(Imported("MCP server", name, Fate.KEPT, (note,)))
    if not new:
        return Added(tuple(parts))
    document = {"mcpServers": {**ours.entries, **new}}
    return Added(tuple(parts), json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _missing(entry: Any, secrets: Secrets) -> tuple[str, ...]:
    try:
        secrets.resolve(entry)
    except SecretsMissing as error:
        return (f"add to {secrets.file.name}: {listing(error.names)}",)
    return ()


def secrets_from(theirs: Mapping[str, str], text: str, known: list[str]) -> Added:
    """Return the providers' keys in their `.env`, to be added to the secrets file.

    Args:
        theirs: the variables in that file.
        text: what the secrets file holds.
        known: the names in it.
    """
    parts, new = [], {}
    for name, value in theirs.items():
        if name in known:
            parts.append(Imported("secret", name, Fate.UNCHANGED))
        elif value and (name in _KEYS or name.endswith("_API_KEY")):
            parts.append(Imported("secret", name, Fate.COPIED))
            new[name] = value
        else:
            note = (
                ".env: set it where workers are started; for programs of agents "
                f"also `tool_env: [{name}]` in config.yaml"
            )
            parts.append(Imported("variable", name, Fate.KEPT, (note,)))
    # JSON is valid YAML.
    added = "".join(f"{name}: {json.dumps(value)}\n" for name, value in new.items())
    before = yaml.load(text, Loader=yaml.BaseLoader) or {}
    return _appended(parts, text, added, {**before, **new}, yaml.BaseLoader)


def _appended(
    parts: list[Imported], text: str, added: str, expected: Mapping[str, Any], loader: type
) -> Added:
    """Append lines to a text, if it then parses as expected: it may not be in block style."""
    if not added:
        return Added(tuple(parts))
    whole = f"{text}\n{added}" if text and not text.endswith("\n") else f"{text}{added}"
    try:
        fits = yaml.load(whole, Loader=loader) == expected
    except yaml.YAMLError:
        fits = False
    if fits:
        return Added(tuple(parts), whole)
    note = "Sleipnir's file cannot be edited line by line: add it yourself"
    return Added(
        tuple(
            replace(part, fate=Fate.KEPT, notes=(note,)) if part.fate is Fate.COPIED else part
            for part in parts
        )
    )


def text_of(file: Path) -> str:
    """Return the text of a file; "" if it is missing.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read.
    """
    try:
        return read_text(file, MIB)
    except FileNotFoundError:
        return ""
