"""The keys in their `.env` and of their clients, which are added to the secrets file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.models import PROVIDER_KEYS
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.scheduler.errors import SecretsMissing
from sleipnir.scheduler.importing.imported import Fate, Imported, added_by_hand
from sleipnir.scheduler.importing.our_files import with_entries

_KEYS = frozenset(name for names in PROVIDER_KEYS.values() for name in names)


def secrets_from(
    variables: Mapping[str, str], keys: Mapping[str, str], text: str
) -> tuple[list[Imported], str | None]:
    """Return what becomes of their keys, and the secrets file's new text; None: unchanged.

    Args:
        variables: of their `.env`; those that are no keys of providers stay.
        keys: of their clients.
        text: what the secrets file holds.
    """
    before = yaml.load(text, Loader=yaml.BaseLoader) or {}
    parts, new = [], {}
    for name, value in {**variables, **keys}.items():
        if name in before:
            parts.append(_known(name, is_equal=before[name] == value))
        elif value and (name in keys or name in _KEYS or name.endswith("_API_KEY")):
            parts.append(Imported("secret", name, Fate.COPIED))
            new[name] = value
        else:
            note = (
                ".env: set it where workers are started; for programs of agents "
                f"also `tool_env: [{name}]` in config.yaml"
            )
            parts.append(Imported("variable", name, Fate.KEPT, (note,)))
    if not new:
        return parts, None
    whole = with_entries(text, new, yaml.BaseLoader)
    return parts if whole is not None else [added_by_hand(part) for part in parts], whole


def _known(name: str, *, is_equal: bool) -> Imported:
    if is_equal:
        return Imported("secret", name, Fate.UNCHANGED)
    note = "the secrets file has another value, which is kept"
    return Imported("secret", name, Fate.KEPT, (note,))


def missing_secrets(value: Any, secrets: Secrets) -> tuple[str, ...]:
    """Return a note that names the secrets a value still needs; () if none."""
    try:
        secrets.resolve(value)
    except SecretsMissing as error:
        return (f"add to {secrets.file.name}: {listing(error.names)}",)
    return ()
