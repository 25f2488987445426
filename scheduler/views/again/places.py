"""The steps from which runs can be repeated: of one run, and of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.runs.history import node_times
from sleipnir.scheduler.runs.model import NO_USAGE, Checkpoint, Run, Status, Usage
from sleipnir.scheduler.views.versions import retry_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.documents import UsageDocument
    from sleipnir.scheduler.views.types import run as types

_MOST_PLACES: Final = 100
# Of many runs: how many are looked at, how many at once, and after how many steps it is enough.
_MOST_RUNS: Final = 200
_AT_ONCE: Final = 20
_ENOUGH_STEPS: Final = 20_000
_MOST_NODES: Final = 5


@dataclass(frozen=True, slots=True)
class RepeatableStep:
    """A step that a run can be repeated from, and what it has spent from there on."""

    step: int
    nodes: tuple[str, ...]
    spent: Usage  # in all tries


@dataclass(slots=True)
class _SharedStep:
    """A step that several runs have."""

    runs: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    spent: Usage = NO_USAGE

    def add(self, place: RepeatableStep) -> None:
        self.runs += 1
        self.nodes.update(place.nodes)
        self.spent += place.spent


def again_document(client: Client, run: Run) -> types.AgainDocument:
    """Return what a retry would repeat, from each step, and what the agent is like by now."""
    found = list(places_of(run, client.queries.checkpoints(run.run_id)))[-_MOST_PLACES:]
    newest_first: list[types.PlaceDocument] = [
        {"step": each.step, "nodes": list(each.nodes), "spent": each.spent.to_json()}
        for each in reversed(found)
    ]
    return {**retry_document(client, run), "places": newest_first}


def places_of(run: Run, history: Iterable[Checkpoint]) -> Iterator[RepeatableStep]:
    """Yield the steps from which a run can be repeated, the oldest first."""
    before = NO_USAGE
    for checkpoint in history:
        for row in node_times([checkpoint]):
            before += row.usage
        if not checkpoint.folded and checkpoint.frontier:
            yield RepeatableStep(checkpoint.step + 1, checkpoint.frontier, run.usage.beyond(before))


def many_again_document(client: Client, run_ids: Sequence[str]) -> types.ManyAgainDocument:
    """Return what retries of runs would repeat, from each step that they have.

    The first runs are looked at. Of more steps than can be listed, those of most runs are.
    """
    looked_at, stopped = 0, NO_USAGE
    steps: dict[int, _SharedStep] = {}
    for run, history in _histories(client, run_ids[:_MOST_RUNS]):
        looked_at += 1
        found = list(places_of(run, history))
        for place in found:
            steps.setdefault(place.step, _SharedStep()).add(place)
        if found and run.status != Status.SUCCEEDED:
            stopped += found[-1].spent
    most = sorted(steps, key=lambda step: (-steps[step].runs, step))[:_MOST_PLACES]
    return {
        "runs": len(run_ids),
        "looked_at": looked_at,
        "stopped": stopped.to_json(),
        "steps": [
            {
                "step": step,
                "nodes": [node for node, _ in steps[step].nodes.most_common(_MOST_NODES)],
                "runs": steps[step].runs,
                "spent": steps[step].spent.to_json(),
            }
            for step in sorted(most)
        ],
    }


def spent_text(
    again: types.ManyAgainDocument, spent: UsageDocument, money: Callable[[float], str] = dollars
) -> str:
    """Return what the runs have spent, estimated if not all were looked at; empty if nothing."""
    tokens, cost = spent["total_tokens"], spent["cost_usd"]
    if not tokens:
        return ""
    share = again["runs"] / again["looked_at"]
    sign = "≈ " if share > 1 else ""
    told = f"{tokens * share:,.0f} tokens" if cost is None else money(cost * share)
    return f"{sign}{told}"


def _histories(client: Client, run_ids: Sequence[str]) -> Iterator[tuple[Run, list[Checkpoint]]]:
    read = 0
    for first in range(0, len(run_ids), _AT_ONCE):
        runs = [run for run in client.queries.runs(run_ids[first : first + _AT_ONCE]) if run]
        histories = client.queries.histories([run.run_id for run in runs])
        yield from zip(runs, histories, strict=True)
        read += sum(map(len, histories))
        if read >= _ENOUGH_STEPS:
            return
