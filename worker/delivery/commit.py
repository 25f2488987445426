"""Turns what an executor returned into the transition that makes it count."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any, assert_never

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import MapNode, ScriptNode
from sleipnir.graphs.state import Snapshot, encode, same_json
from sleipnir.scheduler.errors import StateTooLarge, StepFailing, SubmissionRefused
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    Departure,
    ItemCommitted,
    QuestionAsked,
    RetryScheduled,
    StepCommitted,
    VisitDelayed,
)
from sleipnir.scheduler.runs.model import NO_USAGE, Begun, Failure, Lease, Question, Usage
from sleipnir.scheduler.runs.plan import Branch, Plan, plan_step
from sleipnir.scheduler.runs.submit import NestedTooDeep, child_digest, child_run
from sleipnir.worker.delivery.log_records import log_end, log_step
from sleipnir.worker.sandbox.workdir import forget_scratch
from sleipnir.worker.services import Runtime
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import (
    Asked,
    Deferred,
    Ended,
    Failed,
    Mapped,
    Nothing,
    Outcome,
    Postponed,
    Spawned,
    Wrote,
)

# Writes of so many times what a state may hold cannot fit, whatever they replace.
_FAR_TOO_MUCH = 4


class Commit:
    """Commits one visit: stages or advances its step, parks it, or lets it rest."""

    def __init__(self, runtime: Runtime, lease: Lease, visit: Visit[Any], begun: Begun) -> None:
        self._runtime = runtime
        self._store = runtime.store
        self._lease = lease
        self._visit = visit
        self._begun = begun

    def __call__(self, outcome: Outcome) -> None:
        """Make the outcome count, once.

        Raises:
            TransitionRefused: the visit is not ours any more; the outcome is void.
        """
        if self._visit.logged:
            self._store.runs.append_logs(
                self._visit.run_id, self._log_entries(), self._visit.logged.dropped
            )
        try:
            self._commit(outcome)
        except StepFailing:
            self._discard()

    def _log_entries(self) -> list[str]:
        visit = self._visit
        return [
            _log_entry(visit.step, visit.node_id, visit.index, stream, text)
            for stream, text in visit.logged
        ]

    def _commit(self, outcome: Outcome) -> None:
        if self._visit.index is not None and isinstance(outcome, Wrote | Failed):
            self._stage_item(outcome)
            return
        match outcome:
            case Wrote() | Ended():
                self._finish(self._branch(outcome), _usage_of(outcome))
            case Failed():
                failure = Failure(outcome.code, outcome.message, self._visit.node_id)
                self._finish(
                    Branch({}, failure=failure, timing=self._timing(outcome.usage)), outcome.usage
                )
            case Asked():
                self._ask(outcome)
            case Spawned():
                self._spawn(outcome)
            case Mapped():
                self._open_map(outcome)
            case Postponed():
                self._postpone(outcome)
            case Deferred():
                self._defer(outcome)
            case _:
                assert_never(outcome)

    # ---- a finished visit

    def _finish(self, branch: Branch, usage: Usage) -> None:
        """A step of one visit commits and advances at once; else the last one advances."""
        if self._begun.width == 1:
            current = _reducer_texts(self._visit)
            self._advance({self._visit.node_id: branch}, current, usage)
        elif self._store.visits.stage(self._lease, self._visit.step, branch, usage=usage) == 0:
            self.advance()

    def advance(self) -> None:
        """Advance a step whose visits have all been staged."""
        branches, current = self._store.visits.read_step(
            self._lease.run_id, sorted(self._visit.graph.reducers)
        )
        self._advance(branches, current, NO_USAGE)

    def _advance(
        self, branches: Mapping[str, Branch], current: Mapping[str, str], usage: Usage
    ) -> None:
        graph = self._visit.graph
        plan = plan_step(graph, branches, current)
        try:
            self._write(plan, branches, usage)
        except StateTooLarge:
            limit = self._store.settings.state_limit_bytes
            largest = max(plan.writes, key=lambda key: len(plan.writes[key]))
            failure = Failure(
                "R021",
                f"the state would exceed {limit} bytes (state_limit_bytes); "
                f"the largest write of this step is '{largest}'",
                None,
            )
            self._write(Plan({}, failure=failure), branches, usage)

    def _write(self, plan: Plan, branches: Mapping[str, Branch], usage: Usage) -> None:
        settings = self._visit.graph.settings
        status = self._store.visits.advance(
            self._lease,
            self._visit.step,
            plan,
            cap=settings.max_loop_iterations,
            window=settings.max_concurrency,
            nodes={node_id: branch.timing for node_id, branch in sorted(branches.items())},
            event=self._step_event(plan, branches),
            usage=usage,
        )
        log_step(self._visit, branches, plan)
        self._log_other_failures(plan, branches)
        if status != "running":
            log_end(self._visit, status, self._store)
            forget_scratch(self._runtime.scratch, self._visit.run_id)

    def _log_other_failures(self, plan: Plan, branches: Mapping[str, Branch]) -> None:
        """Of nodes that failed side by side, the run's error tells only the first."""
        entries = [
            _log_entry(
                self._visit.step, node_id, None, "failure", f"{failed.code}: {failed.message}"
            )
            for node_id, branch in sorted(branches.items())
            if (failed := branch.failure) is not None and failed != plan.failure
        ]
        if entries:
            self._store.runs.append_logs(self._visit.run_id, entries)

    def _step_event(self, plan: Plan, branches: Mapping[str, Branch]) -> StepCommitted:
        nodes = self._visit.graph.nodes
        departures = [
            Departure(node_id, branch.targets, branch.tolerated)
            for node_id, branch in sorted(branches.items())
            if not branch.failure and not branch.ended
        ]
        following = [(node_id, nodes[node_id].type) for node_id in plan.frontier]
        warnings = [
            warning
            for branch in branches.values()
            for warning in (branch.timing or {}).get("warnings", ())
        ]
        return StepCommitted(
            self._visit.step,
            departures=tuple(departures),
            next=tuple(following),
            dropped=plan.dropped,
            warnings=tuple(warnings),
        )

    def _branch(self, outcome: Wrote | Ended) -> Branch:
        """The outcome as the store keeps it; fails it where a value is over the limit."""
        try:
            writes = self._texts(outcome)
        except _ValueTooLarge as error:
            failure = Failure("R021", str(error), self._visit.node_id)
            return Branch({}, failure=failure, timing=self._timing(_usage_of(outcome)))
        timing = self._timing(_usage_of(outcome))
        if isinstance(outcome, Ended):
            return Branch(writes, ended=True, output=outcome.output, timing=timing)
        if outcome.failure is not None:
            timing["failure"] = outcome.failure
        if outcome.warnings:
            timing["warnings"] = list(outcome.warnings)
        return Branch(writes, outcome.targets, tolerated=outcome.failure, timing=timing)

    def _texts(self, outcome: Wrote | Ended) -> dict[str, str]:
        """The writes as JSON texts, without those that leave a key as it was."""
        visit = self._visit
        texts = {}
        total = 0
        for key, value in outcome.writes.items():
            text = encode(value)
            size = len(text.encode())
            if size > self._store.settings.value_limit_bytes:
                raise _ValueTooLarge(
                    f"node '{visit.node_id}' wrote {size} bytes to '{key}'; the limit of a "
                    f"value is {self._store.settings.value_limit_bytes} (value_limit_bytes)"
                )
            # Failed scripts' `error` texts are joined: a repeated one counts as well.
            is_error = isinstance(outcome, Wrote) and outcome.failure and key == "error"
            if key in visit.graph.reducers or is_error or not _unchanged(visit.state, key, text):
                texts[key] = text
                total += size
            if total > _FAR_TOO_MUCH * self._store.settings.state_limit_bytes:
                # No need to make all the others: one value may stand for many keys.
                raise _ValueTooLarge(
                    f"node '{visit.node_id}' wrote more than a state may hold: "
                    f"{self._store.settings.state_limit_bytes} bytes (state_limit_bytes)"
                )
        return texts

    def _timing(self, usage: Usage) -> dict[str, Any]:
        timing: dict[str, Any] = {"ms": round(self._elapsed_s() * 1000)}
        usage += self._visit.recorded_usage
        if usage:
            timing["usage"] = usage.to_list()
        if isinstance(self._visit.node, MapNode) and self._visit.resumed_with is not None:
            timing["branch"] = _branch_timing(self._visit.node, self._visit.resumed_with)
        return timing

    def _elapsed_s(self) -> float:
        return self._visit.age_s + monotonic() - self._visit.began_at

    # ---- an invocation of a map

    def _stage_item(self, outcome: Wrote | Failed) -> None:
        graph, visit = self._visit.graph, self._visit
        map_id = self._lease.visit.split("/")[1]
        map_node = graph.nodes[map_id]
        assert isinstance(map_node, MapNode)
        result = _item_result(map_node, visit, outcome)
        failed = "error" in result
        if failed:
            result["item"] = visit.state[map_node.item_name]
        assert visit.index is not None
        event = ItemCommitted(
            map_id,
            visit.index,
            failure=result.get("error"),
            warnings=outcome.warnings if isinstance(outcome, Wrote) else (),
        )
        self._store.parking.stage_item(
            self._lease,
            encode(result),
            halt=failed and map_node.on_error == "fail",
            elapsed_s=self._elapsed_s(),
            event=event,
            usage=outcome.usage,
            spent=outcome.usage + visit.recorded_usage,
        )

    def _discard(self) -> None:
        """What the visit was to wait for is of no use: its step or its map has failed for good."""
        if self._visit.index is None:
            self._finish(Branch({}, discarded=True), NO_USAGE)
        else:
            self._store.parking.stage_item(
                self._lease,
                encode({"value": None}),
                halt=False,
                elapsed_s=self._elapsed_s(),
                spent=self._visit.recorded_usage,
            )

    # ---- parking

    def _ask(self, asked: Asked) -> None:
        visit, begun = self._visit, self._begun
        question = Question(
            run_id=visit.run_id,
            root_run_id=begun.context.root or visit.run_id,
            agent=visit.graph.name,
            visit=self._lease.visit,
            node=visit.node_id,
            visit_number=begun.visit_number,
            kind=asked.kind,
            text=self._visit.mask(asked.text),
            options=asked.options,
            default=asked.default,
            validation=asked.validation,
        )
        event = QuestionAsked(visit.node_id, question.text, asked.options, asked.default)
        turn = encode(asked.turn) if asked.turn is not None else ""
        self._store.parking.ask(self._lease, question, event=event, turn=turn)

    def _spawn(self, spawned: Spawned) -> None:
        context = self._begun.context
        try:
            digest = child_digest(context, spawned.agent, self._store.settings.max_agent_depth)
            child = child_run(
                self._runtime.agents.get(digest).graph,
                digest,
                parent=context,
                parent_run=self._lease.run_id,
                parent_visit=self._lease.visit,
                agent=spawned.agent,
                prompt=spawned.prompt,
            )
        except NestedTooDeep as error:
            self._commit(Failed("R017", str(error)))
            return
        except (SubmissionRefused, BundleError) as error:
            self._commit(Failed("R015", f"agent '{spawned.agent}' cannot start: {error}"))
            return
        event = ChildStarted(self._visit.node_id, spawned.agent, child.run_id)
        self._store.parking.spawn(self._lease, child, spawned.timeout_s, event=event)

    def _open_map(self, mapped: Mapped) -> None:
        node = self._visit.node
        assert isinstance(node, MapNode)
        items = [encode(item) for item in mapped.items]
        self._store.parking.open_map(self._lease, node.branch, mapped.window, items)

    def _postpone(self, postponed: Postponed) -> None:
        visit, usage = self._visit, postponed.usage
        event = RetryScheduled(
            visit.node_id,
            attempt=visit.attempt + 1,
            of=getattr(visit.node, "max_attempts", 1),
            delay_s=postponed.delay_s,
            reason=postponed.reason,
        )
        turn = encode({"attempt": visit.attempt, "usage": usage.to_list()})
        self._store.parking.postpone(
            self._lease, postponed.delay_s, event=event, turn=turn, usage=usage
        )

    def _defer(self, deferred: Deferred) -> None:
        event = VisitDelayed(
            self._visit.node_id, deferred.delay_s, deferred.reason, deferred.for_person
        )
        self._store.parking.postpone(self._lease, deferred.delay_s, event=event)


class _ValueTooLarge(Exception):
    """A single value is over its limit."""


def _log_entry(step: int, node: str, index: int | None, stream: str, text: str) -> str:
    return encode({"step": step, "node": node, "index": index, "stream": stream, "text": text})


def _unchanged(state: Snapshot, key: str, text: str) -> bool:
    """Whether writing `text` would leave the key's JSON value and type as they are."""
    old = state.text(key)
    if old is None or old == text:
        return old is not None
    # Only objects and texts with escapes have more than one spelling.
    return (old[0] == text[0] == "{" or old[0] == text[0] == "[" or "\\" in old) and same_json(
        state[key], Snapshot({key: text})[key]
    )


def _reducer_texts(visit: Visit[Any]) -> dict[str, str]:
    texts = {key: visit.state.text(key) for key in visit.graph.reducers}
    return {key: text for key, text in texts.items() if text is not None}


def _usage_of(outcome: Wrote | Ended) -> Usage:
    return outcome.usage if isinstance(outcome, Wrote) else NO_USAGE


def _item_result(map_node: MapNode, visit: Visit[Any], outcome: Wrote | Failed) -> dict[str, Any]:
    """`{"value": …}`, or why there is none."""
    if isinstance(outcome, Failed):
        return {"error": outcome.message, "code": "R011"}
    key = map_node.output_key
    if key in (visit.node.state_updates or {}):
        return {"value": outcome.writes[key]}
    if not isinstance(visit.node, ScriptNode):
        assert not isinstance(outcome.output, Nothing)
        return {"value": outcome.output}
    if key in outcome.writes:
        return {"value": outcome.writes[key]}
    return {"error": f"the branch wrote no '{key}'", "code": "R012"}


def _branch_timing(node: MapNode, fields: Mapping[str, str]) -> dict[str, Any]:
    """What a map's invocations took together, for the branch's row in summaries."""
    usage = NO_USAGE
    for name, text in fields.items():
        if name.startswith("usage:"):
            usage += Usage.from_text(text)
    return {
        "id": node.branch,
        "visits": int(fields["done"]),
        "ms": int(fields["total_ms"]),
        "max_ms": int(float(fields["max_ms"])),
        "usage": usage.to_list(),
    }
