"""What the tab *Timeline* of a run's page shows: one of its views, or a part of the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views.documents import Document
from sleipnir.worker.monitor.charts import tracks
from sleipnir.worker.monitor.charts.axis import Span
from sleipnir.worker.monitor.charts.timeline import (
    Lane,
    Timeline,
    TimelineLinks,
    node_lines,
    run_lines,
    timeline_of,
    visit_lines,
)

if TYPE_CHECKING:
    from sleipnir.worker.monitor.handlers.run_parts import RunHandler

# The views, and what the links to them are called.
VIEWS: Mapping[str, str] = {"waterfall": "Waterfall", "nodes": "By node", "runs": "Child runs"}
# Of more visits, all of the time is shown above them.
_MANY = 60


async def timeline_tab(page: RunHandler, of: Run, head: Document) -> dict[str, Any]:
    """Return what the template of the tab needs."""
    runs = f"{page.site.prefix}/runs"
    links = TimelineLinks(runs, f"{runs}/{of.run_id}")
    view = page.choice_argument("view", tuple(VIEWS), "waterfall")
    document = await page.timeline(of, "step")
    types = await _types(page, of)
    now_ms, rows = document["now_ms"], document["rows"]

    def lines() -> list[Lane]:
        if view == "runs":
            return run_lines(children["children"], now_ms, links)
        return (node_lines if view == "nodes" else visit_lines)(rows, now_ms, links, types)

    children: Any = await page.children(of) if view == "runs" else {}
    window = _window(page)
    found = await page.site.call(lambda: timeline_of(lines(), window))
    is_long = len(rows) > _MANY
    drawn = {} if found is None else await page.site.call(_drawn, found, is_long=is_long)
    return {
        "timeline": document,
        "found": found,
        "view": view,
        "views": {
            name: label
            for name, label in VIEWS.items()
            if name != "runs" or head["parts"]["children"]
        },
        "window": window,
        "track": tracks.track_svg,
        **drawn,
    }


def _drawn(found: Timeline, *, is_long: bool) -> dict[str, str]:
    return {
        "patterns": tracks.PATTERNS,
        "axis": tracks.axis_svg(found),
        "grid": tracks.grid_svg(found),
        "minimap": tracks.minimap_svg(found) if is_long else "",
        "stretches": tracks.stretches_json(found.axis),
        "whole_stretches": tracks.stretches_json(found.whole),
    }


def _window(page: RunHandler) -> Span | None:
    """Return the part of the time that the address asks for, ms since the beginning."""
    since, until = page.index_argument("from"), page.index_argument("to")
    if since is None or until is None or until <= since:
        return None
    return since, until


async def _types(page: RunHandler, of: Run) -> Mapping[str, str]:
    """Return the types of the run's nodes; none for a normal agent."""
    graph = await page.stored_graph(of)
    return {} if graph is None else {name: node.type for name, node in graph.nodes.items()}
