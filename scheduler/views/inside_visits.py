"""What happened while visits were under way: their model calls, and the child runs they started."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.runs.model import Run, RunRow, Usage
from sleipnir.scheduler.store.clock import to_rfc3339

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import run as types

# Shown of each kind for a visit, the first ones; others are counted.
_MOST = 20
_SLACK_MS = 1_000  # between the clocks of a worker and of Redis
_MOST_CHILDREN = 1_000  # of a run
_MOST_TOOLS = 10  # of a reply


def read_inside(
    client: Client, run: Run
) -> Callable[[types.VisitRowDocument], types.InsideVisitDocument]:
    """Read what happened inside the visits of a run, for the rows of its timeline."""
    # Of tries of the run, the latest at each place.
    calls: defaultdict[tuple[int, str], list[types.TimedCallDocument]] = defaultdict(list)
    latest: dict[tuple[int, str], int] = {}
    for entry in client.queries.transcripts(run.run_id):
        if entry["index"] is None:  # those of a map's items are theirs
            place, number = (entry["step"], entry["node"]), entry.get("try", 1)
            if latest.setdefault(place, number) != number:
                calls[place].clear()
                latest[place] = number
            calls[place] += _calls(entry)
    (found,) = client.queries.child_rows([run.run_id], most=_MOST_CHILDREN, counted=0)
    children: defaultdict[tuple[int, str], list[types.TimedChildDocument]] = defaultdict(list)
    for child in found.rows:
        if child.started_by is not None:
            children[child.started_by.step, child.started_by.node].append(_child(child))

    def inside(row: types.VisitRowDocument) -> types.InsideVisitDocument:
        place = row["step"], row["node"]
        since = row["began_ms"] - row["waited_ms"] - _SLACK_MS
        own = [call for call in calls[place] if call["began_ms"] >= since]
        return {
            "calls": own[:_MOST],
            "more_calls": max(0, len(own) - _MOST),
            "children": children[place][:_MOST],
            "more_children": max(0, len(children[place]) - _MOST),
        }

    return inside


def call_began_at(entry: Mapping[str, Any], exchange: Mapping[str, Any]) -> str | None:
    """Return when a call of a stored conversation began.

    None for calls of earlier versions.
    """
    began = _call_began_ms(entry, exchange)
    return None if began is None else to_rfc3339(began)


def _call_began_ms(entry: Mapping[str, Any], exchange: Mapping[str, Any]) -> int | None:
    if exchange["seconds"] is None or "ago_s" not in exchange:
        return None
    return int(entry["at"] - (exchange["ago_s"] + exchange["seconds"]) * 1000)


def _calls(entry: Mapping[str, Any]) -> Iterator[types.TimedCallDocument]:
    for number, exchange in enumerate(entry["exchanges"], 1):
        began = _call_began_ms(entry, exchange)
        if began is None:
            continue
        usage, reply = Usage(*exchange["usage"]), exchange["reply"]
        asked_for = [] if reply is None else reply.get("tool_calls") or []
        yield {
            "attempt": entry["attempt"],
            "number": number,
            "model": exchange["model"],
            "state": "failed" if reply is None else "done",
            "began_ms": began,
            "began_at": to_rfc3339(began),
            "took_ms": round(exchange["seconds"] * 1000),
            "tokens": usage.prompt_tokens + usage.completion_tokens,
            "tools": [call["function"]["name"] for call in asked_for[:_MOST_TOOLS]],
        }


def _child(child: RunRow) -> types.TimedChildDocument:
    began = child.started_at
    ended = child.ended_at
    return {
        "run_id": child.run_id,
        "agent": child.agent,
        "state": str(child.status),
        "began_ms": began,
        "began_at": None if began is None else to_rfc3339(began),
        "took_ms": None if began is None or ended is None else ended - began,
    }
