"""Short texts of what open runs wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.model import Run, RunRow

with lazy_imports():
    from sleipnir.scheduler.store.economy import groups
    from sleipnir.scheduler.views import economy

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


def waits_of(client: Client, runs: Sequence[Run | RunRow]) -> dict[str, str]:
    """Return by run id what a person has to do, or else the calls that its model waits for."""
    calls = client.queries.open_calls(runs)
    in_short = {run_id: _in_short(names) for run_id, names in calls.items()}
    return in_short | _for_batches(client, runs) | client.waits_for(runs)


def _for_batches(client: Client, runs: Sequence[Run | RunRow]) -> dict[str, str]:
    open_runs = [run for run in runs if not run.is_final]
    if not open_runs or groups.Groups(client.store).is_idle():
        return {}
    return economy.waits_for_batches(client, open_runs)


def _in_short(calls: Sequence[str]) -> str:
    """Return the awaited functions, each with the number of calls."""
    counts = Counter(call.partition("/")[0] for call in calls)
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in counts.items())
