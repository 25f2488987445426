"""Masks, in what is shown of a run, its secret variables and this machine's keys."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from sleipnir.scheduler.runs.model import Run
from sleipnir.worker.masking import mask_json, masker

T = TypeVar("T")


def masked(value: Any, run: Run) -> Any:
    """Mask secrets in JSON of any depth."""
    secrets = [run.context.variables.get(name, "") for name in run.context.secrets]
    # Cached, as documents with many rows repeat the same texts.
    return mask_json(value, cache(masker(secrets)))


def masked_texts(value: T) -> T:
    """Mask secrets in texts that belong to no run."""
    found: T = mask_json(value, cache(masker(())))
    return found
