"""What a Redis server tells about its own work."""

from __future__ import annotations

from collections import Counter
from typing import Any


def cpu_s(redis: Any) -> float:
    """Return the CPU time that a server has used."""
    used = redis.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def commands(redis: Any) -> Counter[str]:
    """Return how often a server has executed each command, those inside scripts included."""
    stats = redis.info("commandstats")
    return Counter(
        {name.removeprefix("cmdstat_"): int(each["calls"]) for name, each in stats.items()}
    )
