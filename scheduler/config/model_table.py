"""litellm's table of models, read without importing it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sleipnir.graphs.attachments import KINDS, Kind
from sleipnir.scheduler.config.models import ModelSettings

_FILE = "model_prices_and_context_window_backup.json"
# A fine-tuned model, ft:<model>:<organisation>::<id>, is looked up as its base model.
_TRAINED = re.compile(r"(ft:[^:]+):.*")
# The provider for which the table lists reasoning models completely.
_SAYS_WHICH_REASON = "openai"
# The one for which it says completely what models take besides texts, and its marks.
_SAYS_WHICH_ATTACH = "openai"
_MARKS: Mapping[Kind, str] = {"image": "supports_vision", "pdf": "supports_pdf_input"}
# For models of which the table does not say it.
_CACHED_FROM_TOKENS = 1_024


def read_entries() -> Mapping[str, Mapping[str, Any]]:
    """Return all entries by name; none without litellm. Some 10 MB, so not cached."""
    spec = find_spec("litellm")
    places = (spec.submodule_search_locations if spec else None) or []
    files = [file for place in places if (file := Path(place) / _FILE).is_file()]
    entries: Mapping[str, Mapping[str, Any]] = json.loads(files[0].read_bytes()) if files else {}
    return entries


def entry_key(provider: str, name: str) -> tuple[str, str]:
    """Return provider and model as the lookup key of an entry or model."""
    return provider, _TRAINED.sub(r"\1", name.removeprefix(f"{provider}/"))


def lacks_reasoning(settings: ModelSettings, model: str) -> bool:
    """Return whether all models behind a name are known to take no `reasoning_effort`."""
    return _all_within(_known().lack_reasoning, settings, model)


def lacks_functions(settings: ModelSettings, model: str) -> bool:
    """Return whether all models behind a name are known not to call functions."""
    return _all_within(_known().lack_functions, settings, model)


def takes_schemas(settings: ModelSettings, model: str) -> bool:
    """Return whether a model is known to take the schema of its reply in a field of the request."""
    own = settings.providers.get(model.partition(":")[0])
    if own is not None and own.structured is not None:
        return own.structured
    return _is_within(_known().schemas, settings, model)


def lacks_attachments(settings: ModelSettings, model: str) -> frozenset[Kind]:
    """Return what a model, or each that an alias stands for, is known not to take."""
    return frozenset.intersection(*(_lacking(settings, one) for one in settings.chain(model)))


def _lacking(settings: ModelSettings, model: str) -> frozenset[Kind]:
    own = settings.providers.get(model.partition(":")[0])
    if own is not None and own.attach is not None:
        return KINDS.difference(own.attach)
    known = _known().lack_attachments
    return frozenset(kind for kind in KINDS if _is_within(known[kind], settings, model))


def is_priced(settings: ModelSettings, model: str) -> bool:
    """Return whether a model's price is known: configured, or in the table."""
    provider, _, name = model.partition(":")
    if model in settings.prices:
        return True
    if provider in settings.own_providers:
        return False
    names = (name, f"{provider}/{name}", entry_key(provider, name)[1])
    return any(each in _priced() for each in names)


@cache
def _priced() -> frozenset[str]:
    """Return the names of all models with a price for tokens."""
    return frozenset(
        name
        for name, entry in read_entries().items()
        if entry.get("input_cost_per_token") is not None
        and entry.get("output_cost_per_token") is not None
    )


def embedding_input_tokens(settings: ModelSettings, model: str) -> int | None:
    """Return the input limit of an embedding model in tokens; None if unknown."""
    provider, _, name = model.partition(":")
    own = settings.providers.get(provider)
    if own is not None and own.api_base is not None:
        return None  # a custom server may use any name for a model
    return _embedding_inputs().get(entry_key(provider, name))


@cache
def _embedding_inputs() -> Mapping[tuple[str, str], int]:
    return {
        entry_key(entry.get("litellm_provider", ""), name): tokens
        for name, entry in read_entries().items()
        if entry.get("mode") == "embedding"
        and isinstance(tokens := entry.get("max_input_tokens"), int)
    }


def prompt_cache_min_tokens(model: str) -> int:
    """Return how long a prompt must at least be for a model's provider to cache it, in tokens."""
    provider, _, name = model.partition(":")
    return _known().cached_from.get(entry_key(provider, name), _CACHED_FROM_TOKENS)


class _Known(NamedTuple):
    """Which models are known to lack or to support something, by provider and name."""

    lack_reasoning: frozenset[tuple[str, str]]
    lack_functions: frozenset[tuple[str, str]]
    schemas: frozenset[tuple[str, str]]
    lack_attachments: Mapping[Kind, frozenset[tuple[str, str]]]
    cached_from: Mapping[tuple[str, str], int]  # the shortest prompt that is cached, in tokens


def _all_within(known: frozenset[tuple[str, str]], settings: ModelSettings, model: str) -> bool:
    return all(_is_within(known, settings, one) for one in settings.chain(model))


def _is_within(known: frozenset[tuple[str, str]], settings: ModelSettings, model: str) -> bool:
    provider, _, name = model.partition(":")
    own = settings.providers.get(provider)
    # A custom server may use any name for a model.
    is_elsewhere = own is not None and own.api_base is not None
    return not is_elsewhere and entry_key(provider, name) in known


@cache
def _known() -> _Known:
    reasoning, functions, schemas = set(), set(), set()
    lack: dict[Kind, set[tuple[str, str]]] = {kind: set() for kind in KINDS}
    cached_from = {}
    for name, entry in read_entries().items():
        provider = entry.get("litellm_provider")
        if not provider:
            continue
        if not entry.get("supports_reasoning", provider != _SAYS_WHICH_REASON):
            reasoning.add(entry_key(provider, name))
        if entry.get("supports_function_calling") is False:
            functions.add(entry_key(provider, name))
        if entry.get("supports_response_schema") is True:
            schemas.add(entry_key(provider, name))
        for kind, mark in _MARKS.items():
            says = entry.get(mark)
            if says is False or (says is None and provider == _SAYS_WHICH_ATTACH):
                lack[kind].add(entry_key(provider, name))
        if isinstance(tokens := entry.get("prompt_cache_min_tokens"), int):
            cached_from[entry_key(provider, name)] = tokens
    lacking = {kind: frozenset(models) for kind, models in lack.items()}
    return _Known(
        frozenset(reasoning), frozenset(functions), frozenset(schemas), lacking, cached_from
    )
