"""litellm's table of models, read without importing it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

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
    """Return whether all models that a name stands for are known to take no `reasoning_effort`."""
    return _all_within(_lacking().reasoning, settings, model)


def lacks_functions(settings: ModelSettings, model: str) -> bool:
    """Return whether all models that a name stands for are known to call no functions."""
    return _all_within(_lacking().functions, settings, model)


def embedding_input_tokens(settings: ModelSettings, model: str) -> int | None:
    """Return how many tokens a call of an embedding model takes; None if that is not known."""
    provider, _, name = model.partition(":")
    own = settings.providers.get(provider)
    if own is not None and own.api_base is not None:
        return None  # somebody else's server may call any model so
    return _embedding_inputs().get(entry_key(provider, name))


@cache
def _embedding_inputs() -> Mapping[tuple[str, str], int]:
    return {
        entry_key(entry.get("litellm_provider", ""), name): tokens
        for name, entry in read_entries().items()
        if entry.get("mode") == "embedding"
        and isinstance(tokens := entry.get("max_input_tokens"), int)
    }


class _Lacking(NamedTuple):
    """What models are known not to do, by provider and name."""

    reasoning: frozenset[tuple[str, str]]
    functions: frozenset[tuple[str, str]]


def _all_within(known: frozenset[tuple[str, str]], settings: ModelSettings, model: str) -> bool:
    return all(_is_within(known, settings, one) for one in settings.chain(model))


def _is_within(known: frozenset[tuple[str, str]], settings: ModelSettings, model: str) -> bool:
    provider, _, name = model.partition(":")
    own = settings.providers.get(provider)
    # Somebody else's server may call any model so.
    is_elsewhere = own is not None and own.api_base is not None
    return not is_elsewhere and entry_key(provider, name) in known


@cache
def _lacking() -> _Lacking:
    reasoning, functions = set(), set()
    for name, entry in read_entries().items():
        provider = entry.get("litellm_provider")
        if not provider:
            continue
        if not entry.get("supports_reasoning", provider != _SAYS_WHICH_REASON):
            reasoning.add(entry_key(provider, name))
        if entry.get("supports_function_calling") is False:
            functions.add(entry_key(provider, name))
    return _Lacking(frozenset(reasoning), frozenset(functions))
