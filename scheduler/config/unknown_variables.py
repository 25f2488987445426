"""Finds environment variables that look like settings but are not, such as misspelt ones."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

from sleipnir.scheduler.config.settings import FIELDS, PREFIX

# Read or set elsewhere.
_OTHERS = (
    "CONFIG_DIR",
    "DATA_DIR",
    "FAILPOINT",
    "IDEMPOTENCY_KEY",
    "MONITOR_AUTH",
    "NODE_ID",
    "PROGRAM",
    "RUN_ID",
)
# Set by Kubernetes and Docker for a service named `sleipnir`.
_OF_SERVICES = ("_SERVICE_HOST", "_SERVICE_PORT", "_PORT_")


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a line for each unknown variable, with the name that was probably meant."""
    known = {f"{PREFIX}{name}" for name in (*map(str.upper, FIELDS), *_OTHERS)}
    return [
        f"{name} has no effect: there is no such setting{_meant(name, known)}"
        for name, value in environment.items()
        if name.startswith(PREFIX) and name not in known and not _is_of_a_service(name, value)
    ]


def _is_of_a_service(name: str, value: str) -> bool:
    return any(part in name for part in _OF_SERVICES) or ("://" in value and name.endswith("_PORT"))


def _meant(name: str, known: Collection[str]) -> str:
    others = [other.removeprefix(PREFIX) for other in known]
    near = difflib.get_close_matches(name.removeprefix(PREFIX), others, n=1, cutoff=0.75)
    return f"; did you mean {PREFIX}{near[0]}?" if near else ""
