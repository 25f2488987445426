"""Masks, in what is shown of a run, its secret variables and this machine's keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from sleipnir.scheduler.runs.model import Run
from sleipnir.worker.masking import masker

T = TypeVar("T")


def masked(value: Any, run: Run) -> Any:
    """Mask secrets in JSON of any depth."""
    secrets = [run.context.variables.get(name, "") for name in run.context.secrets]
    # Cached, as documents with many rows repeat the same texts.
    return _without(value, cache(masker(secrets)))


def masked_texts(value: T) -> T:
    """Mask secrets in texts that belong to no run."""
    found: T = _without(value, cache(masker(())))
    return found


def _without(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(key): _without(each, mask) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without(each, mask) for each in value]
    return value
