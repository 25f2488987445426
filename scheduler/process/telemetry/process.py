"""The exporter that all stores of one process share."""

from __future__ import annotations

import logging
import os
from functools import cache, lru_cache
from importlib.util import find_spec

from sleipnir.scheduler.process.telemetry.pipeline import Pipeline

logger = logging.getLogger("sleipnir.telemetry")


def pipeline() -> Pipeline | None:
    """Return the pipeline that the environment asks for; None if its packages are missing."""
    if not _is_installed():
        return None
    given = sorted(item for item in os.environ.items() if item[0].startswith("OTEL_"))
    return _pipeline(tuple(given))


@lru_cache(maxsize=1)
def _pipeline(_environment: tuple[tuple[str, str], ...]) -> Pipeline:
    return Pipeline()


@cache
def _is_installed() -> bool:
    try:
        is_there = find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        logger.warning(
            "no telemetry: OTEL_EXPORTER_OTLP_ENDPOINT is set, but its packages are not "
            "installed; install sleipnir[otel], or unset it"
        )
    return is_there
