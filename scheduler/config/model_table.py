"""litellm's table of models, read without importing it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sleipnir.scheduler.config.models import ModelSettings

_FILE = "model_prices_and_context_window_backup.json"
# A model that was trained further is known as its kind is: ft:<model>:<organisation>::<id>.
_TRAINED = re.compile(r"(ft:[^:]+):.*")
# Of its models the table says which reason, and nothing of those that do not.
_SAYS_WHICH_REASON = "openai"


def read_entries() -> Mapping[str, Mapping[str, Any]]:
    """All entries by their names there; none where litellm is missing. Some 10 MB, not kept."""
    spec = find_spec("litellm")
    places = (spec.submodule_search_locations if spec else None) or []
    files = [file for place in places if (file := Path(place) / _FILE).is_file()]
    entries: Mapping[str, Mapping[str, Any]] = json.loads(files[0].read_bytes()) if files else {}
    return entries


def entry_key(provider: str, name: str) -> tuple[str, str]:
    """Provider and model of an entry, or of a model that somebody wants to look up."""
    return provider, _TRAINED.sub(r"\1", name.removeprefix(f"{provider}/"))


def lacks_reasoning(settings: ModelSettings, model: str) -> bool:
    """Whether all models that a name stands for are known to take no `reasoning_effort`."""
    return all(_is_without(settings, one) for one in settings.chain(model))


def _is_without(settings: ModelSettings, model: str) -> bool:
    provider, _, name = model.partition(":")
    own = settings.providers.get(provider)
    # Somebody else's server may call any model so.
    is_elsewhere = own is not None and own.api_base is not None
    return not is_elsewhere and entry_key(provider, name) in _without_reasoning()


@cache
def _without_reasoning() -> frozenset[tuple[str, str]]:
    return frozenset(
        entry_key(provider, name)
        for name, entry in read_entries().items()
        if (provider := entry.get("litellm_provider"))
        and not entry.get("supports_reasoning", provider != _SAYS_WHICH_REASON)
    )
