"""What an agent's runs did by day, what fails of them at present, and the last of them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.client.endings import RunCounts
from sleipnir.scheduler.client.spending import day_text
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.scheduler.views.trends.failing import failing_document
from sleipnir.scheduler.views.trends.windows import Window, window_of

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import trends as types
    from sleipnir.scheduler.views.types.records import ListedRunDocument
    from sleipnir.scheduler.views.typical_runs import TypicalRuns

_RUNS = 10
_FAILING = 5


@dataclass(frozen=True, slots=True)
class AgentTrends:
    """An agent's runs over 30 days."""

    window: Window
    days: tuple[RunCounts, ...]  # of each day of the window
    failing: types.FailingDocument  # of a day
    runs: list[ListedRunDocument]  # the newest ones


def agent_trends(client: Client, typical: TypicalRuns, agent: str) -> AgentTrends:
    """Return what an agent's runs did."""
    now_ms = client.queries.now_ms()
    window = window_of(now_ms, "30d")
    days = [day_text(day) for day in window.slots]
    ended = client.ended(("day",), since=date.fromisoformat(days[0]), agent=agent)
    runs = runs_overview(client, RunFilter(agents=(agent,)), typical, limit=_RUNS)
    return AgentTrends(
        window,
        tuple(ended.rows.get((day,), RunCounts()) for day in days),
        failing_document(client, now_ms, _FAILING, (agent,)),
        runs["runs"],
    )
