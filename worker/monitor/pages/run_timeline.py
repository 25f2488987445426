"""What the tab *Timeline* of a run's page shows: one of its views, or a part of the time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views.documents import Document
from sleipnir.worker.monitor.charts import tracks
from sleipnir.worker.monitor.charts.axis import Span
from sleipnir.worker.monitor.charts.nesting import nested, with_opened
from sleipnir.worker.monitor.charts.timeline import (
    Lane,
    Timeline,
    TimelineLinks,
    more_line,
    node_lines,
    run_lines,
    timeline_of,
    visit_lines,
)
from sleipnir.worker.monitor.problems import bad_request

if TYPE_CHECKING:
    from sleipnir.worker.monitor.handlers.run_parts import RunHandler

# The views, and what the links to them are called.
VIEWS: Mapping[str, str] = {"waterfall": "Waterfall", "nodes": "By node", "runs": "Child runs"}
# Of more visits, all of the time is shown above them.
_MANY = 60
# Child runs whose visits are shown at once.
MOST_OPEN = 8
_RUN_ID = re.compile("[0-9a-f]{16}")


async def timeline_tab(page: RunHandler, of: Run, head: Document) -> dict[str, Any]:
    """Return what the template of the tab needs."""
    runs = f"{page.site.prefix}/runs"
    links = TimelineLinks(runs, f"{runs}/{of.run_id}")
    view = page.choice_argument("view", tuple(VIEWS), "waterfall")
    document = await page.timeline(of, "step")
    types = await _types(page, of)
    now_ms, rows = document["now_ms"], document["rows"]
    open_ids = _open_ids(page)
    opened = await _opened(page, of, open_ids)

    def lines() -> list[Lane]:
        if view == "runs":
            return run_lines(children["children"], now_ms, links)
        lines_of = node_lines if view == "nodes" else visit_lines
        return with_opened(lines_of(rows, now_ms, links, types), opened)

    children: Any = await page.children(of) if view == "runs" else {}
    window = _window(page)
    found = await page.site.call(lambda: timeline_of(lines(), window))
    is_long = len(rows) > _MANY
    drawn = {} if found is None else await page.site.call(_drawn, found, is_long=is_long)
    return {
        "timeline": document,
        "found": found,
        "lines": [] if found is None else list(nested(found.lines)),
        "toggled": partial(_toggled, page, open_ids),
        "most_open": MOST_OPEN if len(open_ids) == MOST_OPEN else None,
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


def _open_ids(page: RunHandler) -> list[str]:
    """Return the child runs whose visits the address asks for, `MOST_OPEN` at most.

    Raises:
        Refused: one is no id of a run.
    """
    ids = list(filter(None, (page.text_argument("open") or "").split(",")))
    if not all(map(_RUN_ID.fullmatch, ids)):
        raise bad_request("open takes ids of runs, separated by commas")
    return list(dict.fromkeys(ids))[:MOST_OPEN]


def _toggled(page: RunHandler, open_ids: Sequence[str], run_id: str) -> str | None:
    """Return the address that shows a child run's visits as well, or no more; None at the bound."""
    if run_id not in open_ids and len(open_ids) == MOST_OPEN:
        return None
    others = [each for each in open_ids if each != run_id]
    wanted = others if run_id in open_ids else [*others, run_id]
    return page.with_query(open=",".join(wanted) or None)


async def _opened(page: RunHandler, of: Run, open_ids: Sequence[str]) -> dict[str, list[Lane]]:
    """Return the lines of child runs by id."""
    found: dict[str, list[Lane]] = {}
    for child, document in await page.timelines_of_children(of, open_ids):
        runs = f"{page.site.prefix}/runs"
        links = TimelineLinks(runs, f"{runs}/{child.run_id}")
        types = await _types(page, child)
        lines = visit_lines(document["rows"], document["now_ms"], links, types)
        if document["next"] is not None:
            lines.append(more_line("more visits", f"{links.run}/timeline"))
        found[child.run_id] = lines
    return found


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
