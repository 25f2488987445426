"""The document of a run's graph with its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.drawing.outline import Arrow, Outline, Route, including, with_progress
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.history import NodeTimes, chain_rows, items_done
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import NO_USAGE, Checkpoint, Run, Usage
from sleipnir.scheduler.runs.routes import RouteFinder
from sleipnir.scheduler.runs.spending import spent_by_node, unattributed
from sleipnir.scheduler.views.timeline import (
    unfinished_times,
)

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.documents import ProgressDocument
    from sleipnir.scheduler.views.types import run as types


@dataclass(slots=True)
class _Tally:
    """The figures of a node from the checkpoints."""

    visits: int = 0
    failed: int = 0
    ms: int = 0
    wait_ms: int = 0
    parked_ms: int = 0
    usage: Usage = NO_USAGE
    items: int = 0  # items of a map

    def add(self, visits: int, timing: Mapping[str, Any]) -> None:
        self.visits += visits
        self.failed += int(timing.get("failed", 0))
        self.ms += int(timing.get("ms", 0))
        self.wait_ms += int(timing.get("wait", 0))
        self.parked_ms += int(timing.get("parked", 0))
        self.usage += Usage(*timing["usage"]) if "usage" in timing else NO_USAGE
        self.items += items_done(timing) or 0

    def add_times(self, times: NodeTimes) -> None:
        self.visits += times.visits
        self.failed += times.failed
        self.ms += times.total_ms
        self.wait_ms += times.wait_ms
        self.parked_ms += times.parked_ms


def graph_document(
    client: Client, run: Run, outline: Outline, *, step: int | None = None
) -> types.GraphDocument:
    """Return the nodes and arrows of a run's graph, with the state of each after a step or now.

    Args:
        outline: the outline of the agent's graph as submitted.

    Raises:
        IndexError: the step was not committed.
    """
    tallies: dict[str, _Tally] = {}
    routes, taken, chosen = RouteFinder(outline), Counter[Route](), set[Route]()
    last: Checkpoint | None = None
    for checkpoint in client.queries.checkpoints(run.run_id):
        ways = list(routes.taken(checkpoint))
        # Those of later steps too, so that the drawing of every step looks the same.
        chosen.update(ways)
        if step is None or checkpoint.step <= step:
            last = checkpoint
            _count(tallies, checkpoint)
            taken.update(ways)
    if step is not None and (last is None or last.step < step):
        raise IndexError(f"step {step} does not exist; the last one is {last and last.step}")
    states = _states(client, run, tallies, last, is_past=step is not None)
    items = {} if step is not None else _items(client, run, outline)
    if step is None:
        _add_unfinished(client, run, tallies, states)
    outline = including(outline, sorted(chosen))
    return {
        "step": step,
        "start": outline.start,
        "nodes": [
            {
                "id": box.id,
                "type": box.type,
                "what": box.caption,
                **_node_fields(tallies.get(box.id, _Tally())),
                "state": states.get(box.id, "untouched"),
                "items": items.get(box.id) or _collected(tallies.get(box.id)),
            }
            for box in outline.boxes
        ],
        "arrows": [_arrow_document(arrow, taken) for arrow in outline.arrows],
    }


def drawn_progress(client: Client, run: Run, outline: Outline, *, step: int | None) -> Outline:
    """Return the outline of a run's graph with its progress and the routes that it has taken.

    Raises:
        IndexError: as `graph_document`.
    """
    document = graph_document(client, run, outline, step=step)
    taken = {(arrow["from"], arrow["to"]): arrow["taken"] for arrow in document["arrows"]}
    chosen = (route for route, count in taken.items() if count)
    states: dict[str, Any] = {node["id"]: node["state"] for node in document["nodes"]}
    reached = {node: state for node, state in states.items() if state != "untouched"}
    return with_progress(including(outline, chosen), reached, taken)


def _arrow_document(arrow: Arrow, taken: Mapping[Route, int]) -> types.GraphArrowDocument:
    return {
        "from": arrow.source,
        "to": arrow.target,
        "kind": arrow.kind,
        "label": arrow.label,
        # Calls of a map's branch are counted as its items.
        "taken": 0 if arrow.kind == "each" else taken.get((arrow.source, arrow.target), 0),
    }


def _items(client: Client, run: Run, outline: Outline) -> dict[str, ProgressDocument | None]:
    """Return the progress of running maps in items."""
    maps = [box.id for box in outline.boxes if box.type == "map" and box.id in run.frontier]
    visits = [VisitId.of(run.step, node) for node in maps]
    return dict(zip(maps, client.queries.map_progress(run.run_id, visits), strict=True))


def _collected(tally: _Tally | None) -> ProgressDocument | None:
    """Return the same for a map that has finished."""
    return {"done": tally.items, "total": tally.items} if tally and tally.items else None


def _count(tallies: dict[str, _Tally], checkpoint: Checkpoint) -> None:
    for node, timing in checkpoint.nodes.items():
        tallies.setdefault(node, _Tally()).add(1, timing)
        for row in chain_rows(timing):
            tallies.setdefault(row["id"], _Tally()).add(row["visits"], row)


def _add_unfinished(
    client: Client, run: Run, tallies: dict[str, _Tally], states: dict[str, str]
) -> None:
    """Add what is not committed yet; all that the run has spent is known in another place."""
    for times in unfinished_times(client, run):
        tallies.setdefault(times.node, _Tally()).add_times(times)
        # Nodes that a map runs for its items are in no frontier.
        so_far = "tolerated" if times.failed else "done"
        states.setdefault(times.node, so_far if run.is_final else "running")
    if not unattributed(run):
        _spend(tallies, run)


def _spend(tallies: dict[str, _Tally], run: Run) -> None:
    """Replace the usage in checkpoints, which lack failed and open visits, and earlier tries."""
    for tally in tallies.values():
        tally.usage = NO_USAGE
    for node, spent in spent_by_node(run).items():
        tallies.setdefault(node, _Tally()).usage = spent.usage


def _states(
    client: Client,
    run: Run,
    done: Mapping[str, _Tally],
    last: Checkpoint | None,
    *,
    is_past: bool,
) -> dict[str, str]:
    states = {node: "tolerated" if tally.failed else "done" for node, tally in done.items()}
    if last is not None and is_past:
        return {**states, **dict.fromkeys(last.frontier, "running")}
    if last is None or last.step < run.step:
        stood = {each.node: each.state for each in client.queries.step_visits(run)}
        states |= {
            node: state
            for node, state in stood.items()
            if state != "untouched" or node not in states
        }
    elif not run.is_final:  # the step was committed since the run was read
        states |= dict.fromkeys(last.frontier, "running")
    if not run.is_final:
        states |= {each.node: "waiting" for each in client.queries.questions(run.run_id)}
    elif run.failure is not None and run.failure.node is not None:
        states[run.failure.node] = str(run.status)
    return states


def _node_fields(tally: _Tally) -> types.NodeFiguresDocument:
    return {
        "visits": tally.visits,
        "failed": tally.failed,
        "total_s": tally.ms / 1000,
        "waited_s": tally.wait_ms / 1000,
        "parked_s": tally.parked_ms / 1000,
        "usage": tally.usage.to_json(),
    }
