"""What the environment says about telemetry; the standard `OTEL_*` variables configure the rest."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import cast

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_METRICS = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def is_on() -> bool:
    """Return whether traces or metrics are exported."""
    return has_traces() or has_metrics()


def leave_out_unused() -> None:
    """Keep redis-py from importing OpenTelemetry's SDK, a quarter of its own import, while off."""
    if not is_on():
        sys.modules.setdefault("opentelemetry.sdk.metrics", cast("ModuleType", None))


def has_traces() -> bool:
    """Return whether there is somewhere to export traces to."""
    return _is_on("OTEL_TRACES_EXPORTER", _ENDPOINT, _TRACES)


def has_metrics() -> bool:
    """Return whether there is somewhere to export metrics to."""
    return _is_on("OTEL_METRICS_EXPORTER", _ENDPOINT, _METRICS)


def captures_content() -> bool:
    """Return whether spans carry prompts, replies, and arguments and results of calls."""
    return os.environ.get(_CONTENT, "").lower() == "true"


def _is_on(exporter: str, *endpoints: str) -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get(exporter, "").lower() == "none":
        return False
    return any(os.environ.get(endpoint) for endpoint in endpoints)
