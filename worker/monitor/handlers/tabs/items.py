"""What the tab *Items* of a run's page shows: all items of a map, and one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.graphs.schema import Graph, MapNode
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views import visits
from sleipnir.scheduler.views.documents import Document
from sleipnir.worker.monitor.charts.wall import wall_svg
from sleipnir.worker.monitor.handlers.run_parts import RunHandler
from sleipnir.worker.monitor.handlers.tabs.conversation import threads_tab

_MOST_OF_LOG = 4_000  # characters


async def items_tab(page: RunHandler, of: Run) -> dict[str, Any]:
    """Return the items of the map that is named, else of the first that has begun."""
    of_graph = await page.stored_graph(of)
    nodes = {} if of_graph is None else of_graph.nodes
    maps = {name: node.branch for name, node in nodes.items() if isinstance(node, MapNode)}
    wanted = page.text_argument("map")
    for name in [wanted] if wanted is not None else maps:
        try:
            items = await page.items(of, name)
        except visits.NoSuchMap:
            continue
        shown = {"items": items, "wall": await _wall(page, items), "maps": list(maps)}
        if of_graph is None or name not in maps:
            return {**shown, "branch": None, "values": None, "chosen": None}
        indexes = [each["index"] for each in items["items"]]
        values = await page.item_values(of, of_graph, name, indexes)
        chosen = await _chosen(page, of, of_graph, name)
        return {**shown, "branch": maps[name], "values": values, **chosen}
    why = "No map of this run has begun." if maps else "The agent of this run has no map."
    return {"items": None, "why": why}


async def _wall(page: RunHandler, items: Document) -> str:
    label = f"{items['total']} items, {items['counts']['failed']} failed"

    def place(index: int) -> str:
        after = str(index - 1) if index else None
        query = page.with_query(state=None, cause=None, item=None, after=after)
        return f"{query}#items"

    return await page.site.call(wall_svg, items["states"], label, place)


async def _chosen(page: RunHandler, of: Run, of_graph: Graph, name: str) -> dict[str, Any]:
    """Return all that is known of the item that is named, with its model calls and its log."""
    index = page.index_argument("item")
    if index is None:
        return {"chosen": None}
    chosen = await page.item(of, of_graph, name, index)
    node = of_graph.nodes[name]
    assert isinstance(node, MapNode)
    nodes = set(chosen["item"]["nodes"]) or {node.branch}
    model = await page.model(of)
    calls = [visit for visit in model["visits"] if visit["node"] in nodes]
    logs = await page.logs(of)
    entries = [entry for entry in logs["entries"] if entry["node"] in nodes]
    return {
        "chosen": chosen,
        "log": _end_of(entries),
        **await threads_tab(page, of, calls, children=()),
    }


def _end_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the last lines that were printed; not the streams that other parts of a page show."""
    text = "\n".join(
        entry["text"].rstrip() for entry in entries if entry["stream"] in ("stdout", "stderr")
    )
    return text[-_MOST_OF_LOG:]
