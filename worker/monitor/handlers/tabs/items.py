"""What the tab *Items* of a run's page shows: all items of a map, and one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.graphs.schema import Graph, MapNode
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.queries.maps import BegunMap
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.visits import MapPlace, NoSuchMap
from sleipnir.worker.monitor.charts.wall import wall_svg
from sleipnir.worker.monitor.handlers.run_parts import RunHandler
from sleipnir.worker.monitor.handlers.tabs.conversation import threads_tab

_MOST_OF_LOG = 4_000  # characters
_MOST_VISITS = 20  # of a map, the newest


async def last_place(page: RunHandler, of: Run) -> MapPlace | None:
    """Return the last visit of the map that is named, else of the first that has begun."""
    begun = await _begun(page, of)
    named = page.text_argument("map")
    found = (name for name in begun if named in (None, name))
    return next((MapPlace(name, begun[name].steps[-1]) for name in found), None)


async def no_items_tab(page: RunHandler, of: Run) -> dict[str, Any]:
    """Return why there are no items to show."""
    of_graph = await page.stored_graph(of)
    nodes = {} if of_graph is None else of_graph.nodes
    has_map = any(isinstance(node, MapNode) for node in nodes.values())
    why = "No map of this run has begun." if has_map else "The agent of this run has no map."
    return {"items": None, "why": why}


async def items_tab(page: RunHandler, of: Run, place: MapPlace) -> dict[str, Any]:
    """Return the items of a map's visit."""
    begun = await _begun(page, of)
    if place.node not in begun:
        raise NoSuchMap(of.run_id, place.node, place.step)
    items = await page.items(of, place)
    shown = {
        "items": items,
        "wall": await _wall(page, items),
        "maps": {name: each.steps[-1] for name, each in begun.items()},
        "visited": begun[place.node].steps[-_MOST_VISITS:],
    }
    of_graph = await page.stored_graph(of)
    if of_graph is None:
        return {**shown, "branch": None, "values": None, "chosen": None}
    indexes = [each["index"] for each in items["items"]]
    values = await page.item_values(of, of_graph, place, indexes)
    chosen = await _chosen(page, of, of_graph, place)
    return {**shown, "branch": begun[place.node].branch, "values": values, **chosen}


async def _begun(page: RunHandler, of: Run) -> Mapping[str, BegunMap]:
    return await page.site.call(page.site.client.queries.maps, of)


async def _wall(page: RunHandler, items: Document) -> str:
    label = f"{items['total']} items, {items['counts']['failed']} failed"

    def place(index: int) -> str:
        after = str(index - 1) if index else None
        query = page.with_query(state=None, cause=None, item=None, after=after)
        return f"{query}#items"

    return await page.site.call(wall_svg, items["states"], label, place)


async def _chosen(page: RunHandler, of: Run, of_graph: Graph, place: MapPlace) -> dict[str, Any]:
    """Return all that is known of the item that is named, with its model calls and its log."""
    index = page.index_argument("item")
    if index is None:
        return {"chosen": None}
    chosen = await page.item(of, of_graph, place, index)
    node = of_graph.nodes[place.node]
    assert isinstance(node, MapNode)
    nodes = set(chosen["item"]["nodes"]) or {node.branch}
    model = await page.model(of)
    logs = await page.logs(of)
    calls, entries = (
        [each for each in found if each["node"] in nodes and each["step"] == place.step]
        for found in (model["visits"], logs["entries"])
    )
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
