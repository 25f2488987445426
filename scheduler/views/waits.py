"""What open runs wait for, in a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import Run, RunRow

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


def waits_of(client: Client, runs: Sequence[Run | RunRow]) -> dict[str, str]:
    """By run id what a person has to see to, else the calls whose results its model waits for."""
    calls = client.queries.open_calls(runs)
    return {run_id: _in_short(names) for run_id, names in calls.items()} | client.waits_for(runs)


def _in_short(calls: Sequence[str]) -> str:
    """Functions whose results are waited for; a reply may have called one of them many times."""
    counts = Counter(call.partition("/")[0] for call in calls)
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in counts.items())
