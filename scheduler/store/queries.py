"""What people look at: runs, states, histories, narration, questions. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any

import redis

from sleipnir.scheduler.errors import AmbiguousRun, RunNotFound
from sleipnir.scheduler.runs.events import NarrationEntry, from_json
from sleipnir.scheduler.runs.model import (
    Checkpoint,
    Failure,
    Question,
    Run,
    RunContext,
    Status,
    Usage,
)
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.keys import (
    ALL_PARTITIONS,
    batch_key,
    partition_of,
    run_key,
)

# How long one blocking read of a narration waits before it is repeated.
_BLOCK_MS = 5_000
# Fewer digits could not choose a partition.
_SHORTEST_PREFIX = 2
_SUMMARY_FIELDS = (
    "status",
    "agent",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cost",
    "unpriced",
)
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a list says of a run."""

    agent: str
    status: Status
    usage: Usage


class CompletionFeed:
    """Ids of runs as they end. One may get lost with a connection: look at the runs as well."""

    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription

    def wait(self, timeout_s: float) -> list[str]:
        """The runs that ended since the last call; waits up to `timeout_s` for the first."""
        ended: list[str] = []
        message = self._subscription.get_message(timeout=timeout_s)
        while message is not None:
            ended.append(message["data"])
            message = self._subscription.get_message(timeout=0) if len(ended) < _AT_ONCE else None
        return ended


class RunQueries:
    """Reads of the run store."""

    def __init__(self, client: redis.Redis, clock: RedisClock | None = None) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._clock = clock or RedisClock(client)

    def run(self, run_id: str) -> Run:
        """One run.

        Raises:
            RunNotFound: there is none of that id.
        """
        (found,) = self.runs([run_id])
        if found is None:
            raise RunNotFound(run_id)
        return found

    def runs(self, run_ids: Sequence[str]) -> list[Run | None]:
        """Several runs in one round trip; None for those that do not exist."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hgetall(run_key("run", run_id))
            return [
                _run(run_id, fields) if fields else None
                for run_id, fields in zip(run_ids, pipe.execute(), strict=True)
            ]

    def resolve(self, prefix: str) -> str:
        """The id of the one run that begins with `prefix`.

        Raises:
            RunNotFound, AmbiguousRun: there is none, or more than one.
        """
        try:
            partition = partition_of(prefix)
            exact = self._redis.exists(run_key("run", prefix))
        except ValueError:
            raise RunNotFound(prefix) from None
        if exact:
            return prefix
        if len(prefix) < _SHORTEST_PREFIX:
            raise RunNotFound(prefix)
        found = sorted(
            {run_id for run_id, _ in self._redis.zscan_iter(f"{partition}:runs", f"{prefix}*")}
        )
        if not found:
            raise RunNotFound(prefix)
        if len(found) > 1:
            raise AmbiguousRun(prefix, found)
        return str(found[0])

    def recent(
        self,
        limit: int,
        *,
        status: Status | None = None,
        agent: str | None = None,
        batch: str | None = None,
    ) -> list[Run]:
        """The newest runs that fit, newest first."""
        chosen: list[Run] = []
        for ids in self._newest_ids(batch, limit):
            for run in self.runs(ids):
                if (
                    run is None
                    or (status and run.status != status)
                    or (agent and run.agent != agent)
                ):
                    continue
                chosen.append(run)
                if len(chosen) == limit:
                    return chosen
        return chosen

    def _newest_ids(self, batch: str | None, page: int) -> Iterator[list[str]]:
        """Ids by time of creation, newest first, a page at a time."""
        if batch is not None:
            members = self._redis.smembers(batch_key(batch))
            runs = [run for run in self.runs(sorted(members)) if run is not None]
            runs.sort(key=lambda run: run.created_at, reverse=True)
            yield [run.run_id for run in runs]
            return
        start = 0
        while True:
            with self._redis.pipeline(transaction=False) as pipe:
                for partition in ALL_PARTITIONS:
                    pipe.zrevrange(f"{partition}:runs", 0, start + page - 1, withscores=True)
                found = [pair for pairs in pipe.execute() for pair in pairs]
            found.sort(key=lambda pair: pair[1], reverse=True)
            ids = [run_id for run_id, _ in found[start : start + page]]
            if not ids:
                return
            yield ids
            start += page

    def summaries(self, run_ids: Sequence[str]) -> list[RunSummary | None]:
        """How several runs stand, in one round trip; None for those that do not exist."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), _SUMMARY_FIELDS)
            return [
                _summary(dict(zip(_SUMMARY_FIELDS, values, strict=True))) if values[0] else None
                for values in pipe.execute()
            ]

    def batch_pages(self, batch: str, page: int = 500) -> Iterator[list[str]]:
        """The runs of a batch, a page at a time."""
        ids = self._redis.sscan_iter(batch_key(batch), count=page)
        while found := list(islice(ids, page)):
            yield found

    @contextmanager
    def completions(self, batch: str) -> Iterator[CompletionFeed]:
        """Listen for runs of a batch that end, from now on."""
        with self._redis.pubsub(ignore_subscribe_messages=True) as subscription:
            subscription.subscribe(batch_key(batch))
            yield CompletionFeed(subscription)

    def state(self, run_id: str) -> dict[str, Any]:
        """The state as last committed, keys sorted."""
        texts = self._redis.hgetall(run_key("state", run_id))
        return {key: json.loads(texts[key]) for key in sorted(texts)}

    def history(self, run_id: str) -> list[Checkpoint]:
        """Every checkpoint in order; the first holds the seeds."""
        return [
            _checkpoint(json.loads(text))
            for text in self._redis.lrange(run_key("history", run_id), 0, -1)
        ]

    def steps(self, run_id: str) -> int:
        """The number of super-steps that were committed."""
        return max(0, int(self._redis.llen(run_key("history", run_id))) - 1)

    def logs_dropped(self, run_id: str) -> int:
        """How many entries of the run's log had to make room for newer ones."""
        return int(self._redis.hget(run_key("run", run_id), "log_dropped") or 0)

    def logs(self, run_id: str, node: str | None = None) -> list[dict[str, Any]]:
        """What scripts printed: `step`, `node`, `index`, `stream`, `text` of each entry."""
        entries = [json.loads(text) for text in self._redis.lrange(run_key("logs", run_id), 0, -1)]
        return [entry for entry in entries if node is None or entry["node"] == node]

    def children(self, run_id: str) -> list[Run]:
        """The child runs, in the order they were started."""
        ids = self._redis.lrange(run_key("children", run_id), 0, -1)
        return [run for run in self.runs(ids) if run is not None]

    def follow(
        self, run_id: str, after: str = "0", *, block: bool = True
    ) -> Iterator[NarrationEntry]:
        """The narration from event id `after` on; with `block` it waits for more, for ever."""
        key = run_key("events", run_id)
        while True:
            answer = self._redis.xread({key: after}, block=_BLOCK_MS if block else None)
            for _, entries in answer or ():
                for after, entry in entries:
                    yield _entry(after, entry)
            if not answer and not block:
                return
            if not answer and not self._redis.exists(run_key("run", run_id)):
                raise RunNotFound(run_id)

    def events_after(
        self,
        positions: Mapping[str, str],
        block_ms: int,
        streams: Mapping[str, str] = MappingProxyType({}),
    ) -> list[tuple[str, NarrationEntry]]:
        """What came after a given event id in the narrations of several runs, by run id.

        Waits up to `block_ms` for the first; all runs must be in one partition, as a run and
        its child runs are. `streams` has the positions in their token streams.
        """
        after, keys = {}, {}
        for kind, wanted in (("events", positions), ("tokens", streams)):
            for run_id, event_id in wanted.items():
                key = run_key(kind, run_id)
                after[key], keys[key] = event_id, run_id
        return [
            (keys[key], _entry(event_id, entry))
            for key, entries in self._redis.xread(after, block=block_ms) or ()
            for event_id, entry in entries
        ]

    def newest_entry(self, run_id: str) -> NarrationEntry | None:
        """What was told last of a run."""
        newest = self._redis.xrevrange(run_key("events", run_id), count=1)
        return _entry(*newest[0]) if newest else None

    def end_of_token_stream(self, run_id: str) -> str:
        """Where what a model generates from now on begins."""
        last = self._redis.xrevrange(run_key("tokens", run_id), count=1)
        return str(last[0][0]) if last else "0"

    def now_ms(self) -> int:
        """The time by the clock that runs are stamped with."""
        return self._clock.now_ms()

    def left_ms(self, run_ids: Sequence[str]) -> list[int]:
        """How long runs will be there yet; -1 for those that are not over, -2 if there is none."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.pttl(run_key("run", run_id))
            return [int(left) for left in pipe.execute()]

    def has_live_scheduler(self) -> bool:
        """Whether a scheduler is at work, and so most likely a worker."""
        return bool(self._redis.exists(f"{ALL_PARTITIONS[0]}:owner"))

    def questions(self, run_id: str) -> list[Question]:
        """The open questions of one run, by visit."""
        found = self._redis.hgetall(run_key("questions", run_id))
        partition = partition_of(run_id)
        with self._redis.pipeline(transaction=False) as pipe:
            for visit in sorted(found):
                pipe.zscore(f"{partition}:inbox", f"{run_id} {visit}")
            asked = pipe.execute()
        return [
            _question(run_id, visit, found[visit], int(at or 0))
            for visit, at in zip(sorted(found), asked, strict=True)
        ]

    def inbox(self) -> list[Question]:
        """Every open question, oldest first."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zrange(f"{partition}:inbox", 0, -1, withscores=True)
            asked = [
                (*member.split(" ", 1), int(at))
                for members in pipe.execute()
                for member, at in members
            ]
            for run_id, visit, _ in asked:
                pipe.hget(run_key("questions", run_id), visit)
            questions = [
                _question(run_id, visit, text, at)
                for (run_id, visit, at), text in zip(asked, pipe.execute(), strict=True)
                if text is not None
            ]
        return sorted(questions, key=lambda question: (question.asked_at, question.question_id))


def _run(run_id: str, fields: Mapping[str, str]) -> Run:
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
        failure=Failure(**failure) if failure else None,
        usage=_usage(fields),
        context=RunContext.from_json(fields["context"]),
        parent=fields["parent"].split(" ")[0] if "parent" in fields else None,
        batch=fields.get("batch"),
        item=fields.get("item"),
        visits={
            name.removeprefix("n:"): int(count)
            for name, count in sorted(fields.items())
            if name.startswith("n:")
        },
    )


def _summary(fields: Mapping[str, str | None]) -> RunSummary:
    given = {name: value for name, value in fields.items() if value is not None}
    return RunSummary(given["agent"], Status(given["status"]), _usage(given))


def _usage(fields: Mapping[str, str]) -> Usage:
    return Usage(
        int(fields.get("prompt_tokens", 0)),
        int(fields.get("completion_tokens", 0)),
        None if "unpriced" in fields else float(fields.get("cost", 0)),
        int(fields.get("cached_tokens", 0)),
    )


def _instant(fields: Mapping[str, str], name: str) -> int | None:
    return int(fields[name]) if name in fields else None


def _checkpoint(fields: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(
        step=fields["step"],
        at=fields["at"],
        writes=fields["writes"],
        frontier=tuple(fields["frontier"]),
        nodes={node: timing or {} for node, timing in fields["nodes"].items()},
        folded=fields.get("folded", False),
    )


def _entry(event_id: str, entry: Mapping[str, str]) -> NarrationEntry:
    return NarrationEntry(event_id, int(event_id.split("-")[0]), from_json(entry["e"]))


def _question(run_id: str, visit: str, text: str, asked_at: int) -> Question:
    fields = json.loads(text)
    return Question(
        run_id=run_id,
        visit=visit,
        asked_at=asked_at,
        **{**fields, "options": tuple(fields["options"])},
    )
