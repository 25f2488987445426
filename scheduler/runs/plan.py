"""Decides what follows from a finished super-step: merged writes, and the next frontier or the end.

Pure: takes branches and current values, returns a plan. The store carries it out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.limits import MAX_BRANCHES
from sleipnir.graphs.reducers import ABSENT, reduce_value
from sleipnir.graphs.schema import Graph, ScriptNode
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.failures import NO_FAILURES, NodeFailure, StepFailures
from sleipnir.scheduler.runs.model import Failure

# What a retry does with a visit that failed. "failed": it starts over, with the answers given;
# "misanswered": it starts over and asks again; "broken": it goes on in its conversation.
KeptAs: TypeAlias = Literal["failed", "misanswered", "broken"]


@dataclass(frozen=True, slots=True)
class Branch:
    """The result of one visit of the step, staged until all visits have one."""

    writes: Mapping[str, str]  # key → JSON text; keys equal to the snapshot already dropped
    targets: tuple[str, ...] = ()
    ended: bool = False
    output: str = ""  # of an end node
    value: str = ""  # of an end node that has one: JSON text
    failure: Failure | None = None  # fatal
    kept_as: KeptAs = "failed"  # with `failure`; not stored with a staged branch
    # The reason of a tolerated failure; its `error` may conflict with siblings' writes.
    tolerated: str | None = None
    failures: StepFailures = NO_FAILURES  # that the run is to store
    discarded: bool = False  # void because a sibling failed
    timing: Mapping[str, Any] | None = None  # for the checkpoint: ms, usage

    def to_json(self) -> str:
        fields = {
            "writes": dict(self.writes),
            "targets": list(self.targets),
            "ended": self.ended,
            "output": self.output,
            "failure": json.loads(self.failure.to_text()) if self.failure else None,
            "tolerated": self.tolerated,
            "discarded": self.discarded,
            "timing": self.timing,
        }
        if self.value:
            fields["value"] = self.value
        if self.failures:
            fields["failures"] = asdict(self.failures)
        return encode(fields)

    @classmethod
    def from_json(cls, text: str) -> Branch:
        fields = json.loads(text)
        failure, failures = fields.pop("failure"), fields.pop("failures", None)
        return cls(
            **{**fields, "targets": tuple(fields["targets"])},
            failure=Failure(**failure) if failure else None,
            failures=_failures(failures) if failures else NO_FAILURES,
        )


def _failures(fields: Mapping[str, Any]) -> StepFailures:
    kept = tuple(NodeFailure(**each) for each in fields["kept"])
    return StepFailures(kept, fields["failed"], fields["handled"])


@dataclass(frozen=True, slots=True)
class Plan:
    """What to commit: continue with `frontier`, or end with `output` or `failure`."""

    writes: Mapping[str, str]
    frontier: tuple[str, ...] = ()
    output: str | None = None
    value: str = ""  # JSON text, with `output`
    failure: Failure | None = None
    kept_as: KeptAs = "failed"  # with `failure`
    dropped: tuple[str, ...] = ()  # routes an end node cut off, "a -> b"

    @property
    def status(self) -> str:
        """The run's status after this step for the store; empty to continue."""
        if self.failure is not None:
            return "failed"
        return "succeeded" if self.output is not None else ""


def plan_step(
    graph: Graph,
    branches: Mapping[str, Branch],
    current: Mapping[str, str],
    max_branches: int = MAX_BRANCHES,
) -> Plan:
    """Decide what follows from all branches of a step, independent of the order they finished in.

    Args:
        branches: by node id.
        current: JSON texts of the state's keys that have a reducer.
        max_branches: how many nodes the next step may have.
    """
    in_order = sorted(branches.items())
    for node_id, branch in in_order:
        if branch.failure is not None:
            return Plan({}, failure=branch.failure, kept_as=branch.kept_as)
        if branch.discarded:
            raise ValueError(f"'{node_id}' was discarded, but nothing failed")
    ended = [node_id for node_id, branch in in_order if branch.ended]
    misrouted = _misrouted(graph, in_order, ended)
    if misrouted is not None:
        return Plan({}, failure=misrouted)
    try:
        # The writes of a finished end node come last.
        last = sorted(in_order, key=lambda pair: pair[1].ended)
        writes = merge_writes(graph, last, current)
    except Unmergeable as error:
        return Plan({}, failure=error.failure)
    if ended:
        dropped = tuple(
            f"{node_id} -> {target}" for node_id, branch in in_order for target in branch.targets
        )
        end = branches[ended[0]]
        return Plan(writes, output=end.output, value=end.value, dropped=dropped)
    frontier = tuple(sorted({target for branch in branches.values() for target in branch.targets}))
    if not frontier:
        return Plan({}, failure=Failure("R006", "the step selected no next node", None))
    if len(frontier) > max_branches:
        message = (
            f"the next step would have {len(frontier)} nodes; "
            f"the limit is {max_branches} (max_branches)"
        )
        return Plan({}, failure=Failure("R021", message, None))
    return Plan(writes, frontier=frontier)


def _misrouted(
    graph: Graph, branches: list[tuple[str, Branch]], ended: list[str]
) -> Failure | None:
    if len(ended) > 1:
        names = ", ".join(ended)
        return Failure("R007", f"several end nodes finished in one step: {names}; join them", None)
    for node_id, branch in branches:
        for target in branch.targets:
            if target not in graph.nodes:
                message = f"node '{node_id}' routes to '{target}', which does not exist"
                return Failure("R003", message, node_id)
    return None


class Unmergeable(Exception):
    """The writes of a step cannot be merged; `failure` says why."""

    def __init__(self, code: str, message: str, node: str | None = None) -> None:
        self.failure = Failure(code, message, node)
        super().__init__(message)


def merge_writes(
    graph: Graph,
    branches: list[tuple[str, Branch]],
    current: Mapping[str, str],
) -> dict[str, str]:
    """Merge write sets in the order given; keys without a reducer take one writer only.

    Raises:
        Unmergeable: R008 for parallel writers without a reducer, R009 from a reducer.
    """
    reducers = graph.reducers
    if len(branches) == 1 and not reducers:
        return dict(branches[0][1].writes)
    writers: dict[str, list[tuple[str, Branch]]] = {}
    for node_id, branch in branches:
        for key in branch.writes:
            writers.setdefault(key, []).append((node_id, branch))
    merged = {}
    for key, wrote in writers.items():
        texts = {node_id: branch.writes[key] for node_id, branch in wrote}
        if key in reducers:
            merged[key] = _reduced(reducers[key], key, current.get(key), texts)
        elif len(wrote) == 1:
            (merged[key],) = texts.values()
        elif key == "error" and all(_is_failed_script(graph, *pair) for pair in wrote):
            merged[key] = encode("\n".join(map(json.loads, texts.values())))
        else:
            names = ", ".join(texts)
            raise Unmergeable(
                "R008",
                f"nodes {names} wrote '{key}' in the same super-step; "
                "declare a reducer for it or rename",
            )
    return merged


def _is_failed_script(graph: Graph, node_id: str, branch: Branch) -> bool:
    return branch.tolerated is not None and isinstance(graph.nodes[node_id], ScriptNode)


def _reduced(name: str, key: str, current: str | None, incoming: Mapping[str, str]) -> str:
    value = ABSENT if current is None else json.loads(current)
    for node_id, text in incoming.items():
        try:
            value = reduce_value(name, key, value, json.loads(text))
        except NodeFailed as error:
            raise Unmergeable(error.code, error.message, node_id) from error
    try:
        return encode(value)
    except ValueError as error:
        message = f"reducer '{name}' on key '{key}': the result has too many digits"
        raise Unmergeable("R009", message) from error
