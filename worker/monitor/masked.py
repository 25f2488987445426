"""What is shown of a run: without the values of its secret variables and of this machine's keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sleipnir.scheduler.runs.model import Run
from sleipnir.worker.masking import mask


def masked(value: Any, run: Run) -> Any:
    """JSON of any depth without secrets."""
    return _without(value, [run.context.variables.get(name, "") for name in run.context.secrets])


def _without(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, str):
        return mask(value, secrets)
    if isinstance(value, dict):
        return {mask(key, secrets): _without(each, secrets) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without(each, secrets) for each in value]
    return value
