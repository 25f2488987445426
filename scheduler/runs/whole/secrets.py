"""Secret variables of a run, which stay in Redis: files have a mask in place of their values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from sleipnir.scheduler.runs.whole.parts import WholeRun

# Field of the run's context, then variable → value.
SecretValues: TypeAlias = Mapping[str, Mapping[str, str]]

_FIELDS: Final = ("variables", "submitted_vars")
_MASK: Final = "***"


def secrets_of(run: WholeRun) -> SecretValues:
    """Return the values of the run's secret variables."""
    context = json.loads(run.record["context"])
    names = context.get("secrets", ())
    given = {field: context.get(field, {}) for field in _FIELDS}
    found = {
        field: {name: values[name] for name in names if values.get(name)}
        for field, values in given.items()
    }
    return {field: values for field, values in found.items() if values}


def without_secrets(run: WholeRun) -> WholeRun:
    """Return a run with masks in place of these values."""
    masks = {field: dict.fromkeys(values, _MASK) for field, values in secrets_of(run).items()}
    return with_secrets(run, masks)


def with_secrets(run: WholeRun, secrets: SecretValues) -> WholeRun:
    """Return a run with values in place of the masks."""
    if not secrets:
        return run
    context: dict[str, Any] = json.loads(run.record["context"])
    for field, values in secrets.items():
        context[field] = {**context.get(field, {}), **values}
    return replace(run, record={**run.record, "context": json.dumps(context)})
