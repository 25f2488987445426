"""The head of a run's page: what the run is called, its tabs, and what is usual for its agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.codes import CODES
from sleipnir.records import dataclass
from sleipnir.worker.monitor.formats import first_line, short

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.run import RunDocument

# Parts of a run, each with a page; their order is that of the tabs.
TABS: Mapping[str, str] = {
    "result": "Result",
    "graph": "Graph",
    "timeline": "Timeline",
    "model": "Conversation",
    "state": "State",
    "logs": "Log",
    "events": "Events",
    "items": "Items",
    "children": "Children",
    "agent": "Agent",
}
# Fewer ended runs do not tell what is usual.
_LEAST_RUNS = 5
# So many times what 95 % of an agent's runs stay below is out of the ordinary.
_FAR_TIMES = 3
_MOST_OF_TITLE = 200


@dataclass(frozen=True, slots=True)
class Tab:
    """A link to a part of the run, and how much there is of it."""

    name: str
    label: str
    count: int | None = None  # None: it is not counted
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Usual:
    """How a number of a run compares with the other runs of its agent."""

    p50: float
    p95: float
    runs: int
    times: int  # how many times the median it is; 0 if it is nothing out of the ordinary


def title_of(head: RunDocument) -> str:
    """Return what tells a run from others of its agent: its prompt, its item, or nothing does."""
    return first_line(head["prompt"], _MOST_OF_TITLE) or head["item"] or head["agent"]


def first_tab(head: RunDocument, *, is_of_graph: bool) -> str:
    """Return the tab that a run's page opens on.

    Args:
        is_of_graph: the address names a node or a step.
    """
    if head["converses"]:
        return "model"
    return "result" if head["output"] and not is_of_graph else "graph"


def tabs_of(head: RunDocument, this: str) -> list[Tab]:
    """Return the tabs that have something to show, and the one that is open anyway."""
    parts = head["parts"]
    counted = {
        "model": (parts["calls"], 0),
        "logs": (parts["logs"], 0),
        "items": (parts["items"], parts["failed_items"]),
        "children": (parts["children"], 0),
    }

    def shown() -> Iterator[Tab]:
        for name, label in TABS.items():
            count, failed = counted.get(name, (None, 0))
            if name == this or _has(head, name, count):
                yield Tab(name, label, count or None, failed)

    return list(shown())


def _has(head: RunDocument, name: str, count: int | None) -> bool:
    if name == "result":
        return bool(head["output"])
    if name == "graph":
        return not head["converses"]
    if name == "timeline":
        return head["started_at"] is not None
    if name == "model" and head["converses"]:
        return True
    return count is None or count > 0


def usual_of(value: float | None, typical: Mapping[str, Any], kind: str) -> Usual | None:
    """Return what is usual for a number of a run; None if too little is known.

    Args:
        typical: of the run's agent, as `typical_document` gives it.
        kind: `elapsed_s`, `steps` or `cost_usd`.
    """
    p50, p95 = typical[kind]["p50"], typical[kind]["p95"]
    if typical["runs"] < _LEAST_RUNS or not p50 or not p95:
        return None
    is_far = value is not None and value > _FAR_TIMES * p95
    return Usual(p50, p95, typical["runs"], round((value or 0) / p50) if is_far else 0)


def cure_of(run: RunDocument) -> str | None:
    """Return what helps against a run's failure, as Markdown; None if nothing is known to."""
    error = run["error"]
    found = CODES["run"].get(error["code"]) if error else None
    if error is None or found is None:
        return None
    return found.cure.replace("RUN", short(run["run_id"])).replace("NODE", error["node"] or "NODE")
