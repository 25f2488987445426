"""How much one worker process does, and holds, before another takes its place."""

from __future__ import annotations

import os
from pathlib import Path

from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.visit.lease import Leases

_MEMORY = Path("/proc/self/statm")
_MIB = 1024 * 1024


def worn(settings: Settings, leases: Leases) -> str:
    """Return why another process should take this one's place; empty if none should.

    Never before the first visit: under a limit that is too low, runs are slow but go on.
    """
    _, begun = leases.latest()
    if begun == 0 or leases.closed:
        return ""
    if 0 < settings.max_visits <= begun:
        return f"has begun {begun} visits"
    held_mb = memory_bytes() // _MIB if settings.max_memory_mb else 0
    if held_mb > settings.max_memory_mb:
        return f"takes {held_mb} MiB"
    return ""


def memory_bytes() -> int:
    """Return the memory of this process; 0 if the system does not tell."""
    try:
        return int(_MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
