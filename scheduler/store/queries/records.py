"""Queries of runs' records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import AmbiguousRun, ArchiveFailed, RunNotFound, RunRemoved
from sleipnir.scheduler.runs.conversation.roster import handle, is_handle
from sleipnir.scheduler.runs.failures import NodeFailure, in_order, read_failure
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, VisitId
from sleipnir.scheduler.runs.model import Failure, Inherited, Run, RunContext, RunRow, Status, Usage
from sleipnir.scheduler.runs.spending import spent_fields
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.keys import ids_keys, run_key
from sleipnir.scheduler.store.queries.base import Queries
from sleipnir.scheduler.store.queries.reads import Reads

# Fewer digits do not determine a partition.
_SHORTEST_PREFIX = 2
_VISITS = "n:"  # in front of a node, in a record's fields
_MOST_NODES = 1000
_AT_ONCE = 1000  # entries of an index that are searched in one round trip
_USAGE_FIELDS = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_written_tokens",
    "cost",
    "economy",
    "unpriced",
)
_SUMMARY_FIELDS = ("status", "agent", "digest", "try", "failed_nodes", "batch", *_USAGE_FIELDS)
# All fields but the large ones: output, value, error, context.
_ROW_FIELDS = (
    *("status", "agent", "frontier", "created", "started", "ended", "machine", "parent", "root"),
    *("queues", "batch", "labels", "item", "failed_nodes"),
    *("try", "earlier_ms", "step"),
    *_USAGE_FIELDS,
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The part of a run that lists need."""

    agent: str
    status: Status
    usage: Usage
    digest: str  # of the agent's bundle
    tries: int
    failed_nodes: int
    batch: str | None  # None also of a run that another attempt has replaced


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a run times out."""

    at: int  # ms
    allowed_ms: int  # that it has in all


class RecordQueries(Queries):
    """Queries of records."""

    def run(self, run_id: str) -> Run:
        """Return one run.

        Raises:
            RunNotFound: there is none of that id.
        """
        return self._carry_out(run_of(run_id))

    def runs(self, run_ids: Sequence[str]) -> list[Run | None]:
        """Return several runs in one round trip; None for those that do not exist."""
        return self._carry_out(runs_of(run_ids))

    def resolve(self, prefix: str) -> str:
        """Return the id of the only run that begins with `prefix`, or that a model names this way.

        Raises:
            RunNotFound, AmbiguousRun: there is none, or more than one; also for one character.
        """
        if is_handle(prefix):
            return self._resolve_handle(prefix)
        try:
            keys = ids_keys(prefix)
            exact = self._redis.exists(run_key("run", prefix))
        except ValueError:
            raise RunNotFound(prefix) from None
        if exact:
            return prefix
        if len(prefix) < _SHORTEST_PREFIX:
            raise AmbiguousRun(prefix, ())
        with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.hkeys(key)
            found = sorted(
                run_id for ids in pipe.execute() for run_id in ids if run_id.startswith(prefix)
            )
        if not found:
            raise self._carry_out(missing(prefix))
        if len(found) > 1:
            raise AmbiguousRun(prefix, found)
        return str(found[0])

    def _resolve_handle(self, name: str) -> str:
        """Return a child run by its last digits; it may be in any partition."""
        digits = name.rpartition("_")[2]
        found = sorted(
            run_id
            for partition in ALL_PARTITIONS
            for run_id, _ in self._redis.zscan_iter(
                f"{partition}:childruns", match=f"*{digits}", count=_AT_ONCE
            )
        )
        named = [
            row.run_id
            for row in self.rows(found)
            if row is not None and handle(row.agent, row.run_id) == name
        ]
        if not named:
            raise RunNotFound(name)
        if len(named) > 1:
            raise AmbiguousRun(name, named)
        return named[0]

    def summaries(self, run_ids: Sequence[str]) -> list[RunSummary | None]:
        """Return summaries of several runs in one round trip; None for those that do not exist."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), _SUMMARY_FIELDS)
            return [
                _summary(_given(_SUMMARY_FIELDS, values)) if values[0] else None
                for values in pipe.execute()
            ]

    def rows(self, run_ids: Sequence[str]) -> list[RunRow | None]:
        """Return list rows of several runs in one round trip; None for those that do not exist."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), _ROW_FIELDS)
            return [
                _row(run_id, _given(_ROW_FIELDS, values)) if values[0] else None
                for run_id, values in zip(run_ids, pipe.execute(), strict=True)
            ]

    def ready_nodes(self, runs: Sequence[Run | RunRow]) -> list[set[str]]:
        """Return of each run the nodes of visits that a worker could take now."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run in runs:
                pipe.hgetall(run_key("visits", run.run_id))
            opened = pipe.execute()
        ready = [
            [VisitId(visit) for visit, packed in visits.items() if packed.startswith("ready ")]
            for visits in opened
        ]
        # A map's branch is not in the ids of the first visits of its items.
        unnamed = {
            (run.run_id, visit.map_visit)
            for run, visits in zip(runs, ready, strict=True)
            for visit in visits
            if visit.map_visit is not None
        }
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id, map_visit in sorted(unnamed):
                pipe.hget(run_key("map", f"{run_id} {map_visit}"), "branch")
            branches = dict(zip(sorted(unnamed), pipe.execute(), strict=True))
        return [
            {_executed(run.run_id, visit, branches) for visit in visits}
            for run, visits in zip(runs, ready, strict=True)
        ]

    def failures(self, run: Run) -> list[NodeFailure]:
        """Return the first node failures that did not end the run, including handled ones."""
        if not run.failed_nodes and not run.handled_failures:
            return []
        kept = self._parts.lrange(run_key("failures", run.run_id), 0, -1)
        return in_order(map(read_failure, kept))

    def errors(self, run_ids: Sequence[str]) -> list[Failure | None]:
        """Return the errors of runs in one round trip; None for those that did not fail."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hget(run_key("run", run_id), "error")
            return [Failure(**json.loads(text)) if text else None for text in pipe.execute()]

    def node_visits(self, run_ids: Sequence[str]) -> list[dict[str, int]]:
        """Return how often each of several runs has visited each node; of very many, some."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hscan(run_key("run", run_id), match=f"{_VISITS}*", count=_MOST_NODES)
            return [
                {name.removeprefix(_VISITS): int(count) for name, count in fields.items()}
                for _, fields in pipe.execute()
            ]

    def digests(self, run_ids: Sequence[str]) -> list[str | None]:
        """Return the bundle digests of runs in one round trip; None for those that do not exist."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hget(run_key("run", run_id), "digest")
            return list(pipe.execute())

    def startable_agents(self, run_ids: Sequence[str]) -> list[Mapping[str, str]]:
        """Return the bundle digests of the agents that runs may start, in one round trip."""
        with self._parts.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hget(run_key("run", run_id), "context")
            return [RunContext.from_json(text).agents if text else {} for text in pipe.execute()]

    def child_counts(self, run_ids: Sequence[str]) -> list[int]:
        """Return how many child runs each run started, in one round trip."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.llen(run_key("children", run_id))
            return list(pipe.execute())

    def deadlines(self, run_ids: Sequence[str]) -> list[Deadline | None]:
        """Return when runs time out, in one round trip; None for those that never do."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), "started", "deadline")
            return [
                Deadline(int(at), int(at) - int(started or at)) if at else None
                for started, at in pipe.execute()
            ]

    def children(self, run_id: str) -> list[Run]:
        """Return the child runs, in the order they were started."""
        return [run for run in self.runs(self.child_ids(run_id)) if run is not None]

    def child_ids(self, run_id: str) -> list[str]:
        """Return the ids of the child runs, in the order they were started."""
        return list(self._redis.lrange(run_key("children", run_id), 0, -1))

    def left_ms(self, run_ids: Sequence[str]) -> list[int]:
        """Return how long runs stay complete, in ms; -1 if they have not ended, -2 if not found."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.pttl(run_key("history", run_id))
            return [int(left) for left in pipe.execute()]


def run_of(run_id: str) -> Reads[Run]:
    """Read one run.

    Raises:
        RunNotFound: there is none of that id.
    """
    try:
        key = run_key("run", run_id)
    except ValueError:  # not the form of a run id
        raise (yield from missing(run_id)) from None
    (fields,) = yield [("HGETALL", key)]
    if not fields:
        raise (yield from missing(run_id))
    return parse_run(run_id, fields)


def missing(run_id: str) -> Reads[RunNotFound]:
    """Read why there is no run of an id, as the error to raise."""
    try:
        (text,) = yield [("GET", run_key("gone", run_id))]
    except ValueError:  # no run can have that id
        text = None
    if text is None:
        return RunNotFound(run_id)
    told = json.loads(text)
    return RunRemoved(
        run_id,
        agent=told["agent"],
        status=told["status"],
        ended_at=to_rfc3339(told["ended"]),
        removed_at=to_rfc3339(told["removed"]),
        kept_days=told["kept_ms"] / 86_400_000,
    )


def runs_of(run_ids: Sequence[str]) -> Reads[list[Run | None]]:
    """Read several runs; None for those that do not exist."""
    records = yield [("HGETALL", run_key("run", run_id)) for run_id in run_ids]
    return [
        parse_run(run_id, fields) if fields else None
        for run_id, fields in zip(run_ids, records, strict=True)
    ]


def parse_run(run_id: str, fields: Mapping[str, str]) -> Run:
    """Return the run of a record as it is stored.

    Raises:
        ArchiveFailed: the rest of it is in an archive, which is not set here.
    """
    if "context" not in fields and "archived" in fields:
        raise ArchiveFailed(
            f"run {run_id} is archived, and the setting `archive` is not set here: set it to the "
            "directory or URL that the scheduler has"
        )
    failure = json.loads(fields["error"]) if fields.get("error") else None
    return Run(
        run_id=run_id,
        agent=fields["agent"],
        digest=fields["digest"],
        status=Status(fields["status"]),
        step=int(fields["step"]),
        frontier=tuple(fields["frontier"].split(" ")),
        created_at=int(fields["created"]),
        started_at=_instant(fields, "started"),
        ended_at=_instant(fields, "ended"),
        deadline=_instant(fields, "deadline"),
        output=fields["output"] if fields["status"] == Status.SUCCEEDED else None,
        value=json.loads(fields["value"]) if fields.get("value") else None,
        failure=Failure(**failure) if failure else None,
        usage=_usage(fields),
        # It may have been moved since it was submitted.
        context=replace(RunContext.from_json(fields["context"]), machine=fields.get("machine")),
        parent=_parent(fields),
        batch=fields.get("batch"),
        item=fields.get("item"),
        line=int(fields["line"]) if "line" in fields else None,
        visits={
            name.removeprefix(_VISITS): int(count)
            for name, count in sorted(fields.items())
            if name.startswith(_VISITS)
        },
        labels=json.loads(fields.get("labels", "{}")),
        failed_nodes=int(fields.get("failed_nodes", 0)),
        handled_failures=int(fields.get("handled_failures", 0)),
        forked_from=_fork(fields.get("forked_from")),
        inherited=Inherited.from_text(fields["inherited"]) if "inherited" in fields else None,
        tries=int(fields.get("try", 1)),
        earlier_ms=int(fields.get("earlier_ms", 0)),
        capped=tuple(fields["capped"].split(" ")) if "capped" in fields else (),
        spent=spent_fields(fields),
        queues=json.loads(fields.get("queues", "{}")),
        webhook=fields.get("webhook"),
    )


def _fork(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    run_id, step = text.split(" ")
    return run_id, int(step)


def _summary(fields: Mapping[str, str]) -> RunSummary:
    return RunSummary(
        fields["agent"],
        Status(fields["status"]),
        _usage(fields),
        fields["digest"],
        int(fields.get("try", "1")),
        int(fields.get("failed_nodes", "0")),
        fields.get("batch"),
    )


def _executed(
    run_id: str, visit: VisitId, branches: Mapping[tuple[str, VisitId], str | None]
) -> str:
    if visit.map_visit is None:
        return visit.node
    return visit.later_node or branches[run_id, visit.map_visit] or visit.node


def _row(run_id: str, fields: Mapping[str, str]) -> RunRow:
    return RunRow(
        run_id=run_id,
        agent=fields["agent"],
        status=Status(fields["status"]),
        frontier=tuple(fields["frontier"].split(" ")),
        created_at=int(fields["created"]),
        usage=_usage(fields),
        machine=fields.get("machine"),
        parent=_parent(fields),
        root=fields.get("root", run_id),
        batch=fields.get("batch"),
        labels=json.loads(fields.get("labels", "{}")),
        failed_nodes=int(fields.get("failed_nodes", 0)),
        tries=int(fields.get("try", 1)),
        earlier_ms=int(fields.get("earlier_ms", 0)),
        started_at=_instant(fields, "started"),
        ended_at=_instant(fields, "ended"),
        item=fields.get("item"),
        step=int(fields.get("step", 0)),
        started_by=VisitId(fields["parent"].partition(" ")[2]) if "parent" in fields else None,
        queues=json.loads(fields.get("queues", "{}")),
    )


def _given(names: Sequence[str], values: Sequence[str | None]) -> dict[str, str]:
    pairs = zip(names, values, strict=True)
    return {name: value for name, value in pairs if value is not None}


def _parent(fields: Mapping[str, str]) -> str | None:
    return fields["parent"].split(" ")[0] if "parent" in fields else None


def _usage(fields: Mapping[str, str]) -> Usage:
    return Usage(
        int(fields.get("prompt_tokens", 0)),
        int(fields.get("completion_tokens", 0)),
        None if "unpriced" in fields else float(fields.get("cost", 0)),
        int(fields.get("cached_tokens", 0)),
        int(fields.get("cache_written_tokens", 0)),
        float(fields.get("economy", 0)),
    )


def _instant(fields: Mapping[str, str], name: str) -> int | None:
    return int(fields[name]) if name in fields else None
