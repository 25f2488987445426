"""Queries of the maps of one run, and of their items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.item_ways import NodeSums
from sleipnir.scheduler.runs.map_items import MapItem, items_of, sum_fields, sums_so_far, unpacked
from sleipnir.scheduler.runs.model import Checkpoint, Run
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.queries.histories import HistoryQueries, parse_checkpoint

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import ProgressDocument

# Of a map that has begun.
_HEAD = ("branch", "total", "next")


@dataclass(frozen=True, slots=True)
class BegunMap:
    """A map of a run that has begun."""

    branch: str  # the node of its items
    steps: Sequence[int]  # of its visits, in order


class MapQueries(HistoryQueries):
    """Queries of one run's contents, of its maps too."""

    def map_progress(self, run_id: str, visits: Sequence[str]) -> list[ProgressDocument | None]:
        """Return `done` and `total` items of running maps; None if nothing is stored of a map."""
        with self._parts.pipeline(transaction=False) as pipe:
            for visit in visits:
                pipe.hmget(run_key("map", f"{run_id} {visit}"), "done", "total")
            answers = pipe.execute()
        return [
            None if total is None else {"done": int(done or 0), "total": int(total)}
            for done, total in answers
        ]

    def map_items(self, run: Run, node: str, step: int | None = None) -> list[MapItem]:
        """Return the items of a map's visit in a step, or else of its running or last one.

        Raises:
            KeyError: the node has not begun, or not in that step, or is not a map.
        """
        if step in (None, run.step):
            live = self._parts.hgetall(run_key("map", f"{run.run_id} {VisitId.of(run.step, node)}"))
            if live:
                return items_of(live)
        checkpoints = self.history(run.run_id) if step is None else self._committed(run, step)
        for checkpoint in reversed(checkpoints):
            branch = checkpoint.nodes.get(node, {}).get("branch")
            if branch is not None:
                return unpacked(branch["items"], branch["id"])
        raise KeyError(node)

    def sums_of_maps(self, run: Run, nodes: Sequence[str]) -> dict[str, NodeSums]:
        """Return what the nodes of chains took so far, of those maps that have not ended.

        Neither items nor results are read, which may be large.

        Args:
            nodes: of the run's current step.
        """
        keys = [run_key("map", f"{run.run_id} {VisitId.of(run.step, node)}") for node in nodes]
        heads = self._of_maps(keys, [_HEAD] * len(keys))
        live = [(key, head) for key, head in zip(keys, heads, strict=True) if len(head) == 3]
        wanted = [sum_fields(int(head["total"])) for _, head in live]
        took = self._of_maps([key for key, _ in live], wanted)
        sums: defaultdict[str, NodeSums] = defaultdict(NodeSums)
        for (_, head), fields in zip(live, took, strict=True):
            for node, each in sums_so_far(head | fields).items():
                sums[node] = sums[node].plus(each)
        return dict(sums)

    def _of_maps(
        self, keys: Sequence[str], wanted: Sequence[Sequence[str]]
    ) -> list[dict[str, str]]:
        """Return the fields that each hash has, of those that are wanted of it."""
        with self._parts.pipeline(transaction=False) as pipe:
            for key, names in zip(keys, wanted, strict=True):
                pipe.hmget(key, names)
            answers = pipe.execute()
        return [
            {name: text for name, text in zip(names, texts, strict=True) if text is not None}
            for names, texts in zip(wanted, answers, strict=True)
        ]

    def _committed(self, run: Run, step: int) -> list[Checkpoint]:
        """Return the checkpoint of a step, if there is one."""
        texts = self._parts.lrange(run_key("history", run.run_id), step, step)
        return [*map(parse_checkpoint, texts)]

    def maps(self, run: Run) -> dict[str, BegunMap]:
        """Return the map nodes that have begun, in the order in which they first did."""
        branches: dict[str, str] = {}
        steps = defaultdict[str, list[int]](list)
        for checkpoint in self.checkpoints(run.run_id):
            for node, timing in checkpoint.nodes.items():
                if "branch" in timing:
                    branches[node] = str(timing["branch"]["id"])
                    steps[node].append(checkpoint.step)
        with self._parts.pipeline(transaction=False) as pipe:
            for node in run.frontier:
                pipe.hget(run_key("map", f"{run.run_id} {VisitId.of(run.step, node)}"), "branch")
            for node, branch in zip(run.frontier, pipe.execute(), strict=True):
                if branch is not None:
                    branches[node] = branch
                    steps[node].append(run.step)
        return {node: BegunMap(branch, steps[node]) for node, branch in branches.items()}

    def open_map_result(self, run: Run, node: str, index: int) -> tuple[bool, str | None]:
        """Return whether a map is open, and the result that it keeps of an ended item, as JSON."""
        key = run_key("map", f"{run.run_id} {VisitId.of(run.step, node)}")
        total, result = self._parts.hmget(key, "total", f"result:{index}")
        return total is not None, result
