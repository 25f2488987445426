"""The state of the engine as a whole: counts of runs, clocks, queues, memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.cluster.groups import nodes_of, tags_of
from sleipnir.scheduler.store.keys import (
    LANES,
    TURN_MARK,
    lane_key,
    machine_queue,
    named_queue,
    run_key,
    turns_key,
)
from sleipnir.scheduler.store.queries.base import Queries

_QUESTIONS_OF_A_PARTITION = 8
# Queues of machines that one command asks whether they have messages.
_AT_ONCE = 64
# Messages of a lane that are asked whether their runs have ended.
_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue of messages that no worker has taken yet."""

    length: int
    oldest_s: float  # age of the oldest among the messages next in their lanes
    urgent_s: float  # the same without the lane of batch runs that have not started
    next_start: str | None  # the message that is next in that lane


_EMPTY = QueueState(0, 0.0, 0.0, None)


@dataclass(frozen=True, slots=True)
class EngineState:
    """One reading of the engine's state, over all partitions."""

    # Ended root runs still stored, and their usage; fields as for `tally` in keys.py.
    tally: Mapping[str, int]
    open: int  # root runs that have not ended
    waiting: int  # those of them that wait for a person
    questions: int
    oldest_question_s: float | None
    timer_lag_s: float  # by how much the most overdue timer is late
    unowned: int  # partitions that no scheduler owns
    repairs: Mapping[str, int]  # of stranded runs, by name, since the database was created
    queues: Mapping[str, QueueState]  # by name; empty if the broker is another server
    memory_bytes: int  # of all nodes together, on a cluster
    memory_limit_bytes: int  # likewise; 0: no limit


class EngineQueries(Queries):
    """Queries that cost one read per partition."""

    def engine_state(
        self,
        machines: Iterable[str],
        names: Iterable[str] = (DEFAULT_QUEUE,),
        *,
        is_broker: bool = True,
    ) -> EngineState:
        """Return the current state of the engine.

        Args:
            machines: the machines whose own queues are included.
            names: the names of the queues.
            is_broker: whether this Redis holds the queues.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hgetall(f"{partition}:tally")
                pipe.zcard(f"{partition}:open")
                pipe.zcard(f"{partition}:waiting")
                pipe.zcard(f"{partition}:inbox")
                pipe.zrange(f"{partition}:inbox", 0, 0, withscores=True)
                pipe.zrange(f"{partition}:timers", 0, 0, withscores=True)
                pipe.exists(f"{partition}:owner")
                pipe.hgetall(f"{partition}:repairs")
            answers = pipe.execute()
        memory = [node.info("memory") for node in nodes_of(self._redis)]
        tallies, *columns = (
            answers[first::_QUESTIONS_OF_A_PARTITION] for first in range(_QUESTIONS_OF_A_PARTITION)
        )
        opened, waiting, asked, oldest, timers, owners, repairs = columns
        limits = [each["maxmemory"] for each in memory]
        now_ms = self.now_ms()
        asked_at = [score for found in oldest for _, score in found]
        due = [score for found in timers for _, score in found]
        return EngineState(
            tally=_sums(tallies),
            open=sum(opened),
            waiting=sum(waiting),
            questions=sum(asked),
            oldest_question_s=(now_ms - min(asked_at)) / 1000 if asked_at else None,
            timer_lag_s=max(0.0, (now_ms - min(due)) / 1000) if due else 0.0,
            unowned=owners.count(0),
            repairs=_sums(repairs),
            queues=self.queues(machines, names, now_ms) if is_broker else {},
            memory_bytes=sum(each["used_memory"] for each in memory),
            memory_limit_bytes=sum(limits) if all(limits) else 0,
        )

    def queues(
        self, machines: Iterable[str], names: Iterable[str], now_ms: int
    ) -> dict[str, QueueState]:
        """Return how the queues of these names stand, and those of some machines.

        Of machines, empty queues besides the default one are left out.
        """
        names, machines = sorted(set(names)), sorted(set(machines))
        own = [machine_queue(machine, name) for name in names for machine in machines]
        tags = tags_of(self._redis)
        queues = [*map(named_queue, names), *self._likely_held(own, tags)]
        with self._redis.pipeline(transaction=False) as pipe:
            for queue in queues:
                for base in (f"{tag}{queue}" for tag in tags):
                    for lane in range(LANES):
                        pipe.llen(lane_key(base, lane))
                        pipe.lindex(lane_key(base, lane), -1)
                    pipe.zrange(turns_key(base), 0, 0)
            answers = iter(pipe.execute())
        states = {
            queue: _together([_queue_state(answers, now_ms) for _ in tags]) for queue in queues
        }
        told = {*map(named_queue, names), *(machine_queue(machine) for machine in machines)}
        return {
            queue: state
            for queue in (*map(named_queue, names), *own)
            if (state := states.get(queue, _EMPTY)).length or queue in told
        }

    def awaited(self, queues: Iterable[str]) -> list[str]:
        """Return those of the queues in which a message of an open run waits.

        Messages of runs that have ended stay until a worker takes them. Where there are many, an
        open run is taken to be among those that are not looked at.
        """
        queues = sorted(queues)
        messages = self._next_messages(queues)
        run_ids = sorted({_run_of(text) for texts in messages.values() for text in texts} - {""})
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hget(run_key("run", run_id), "status")
            statuses = dict(zip(run_ids, pipe.execute(), strict=True))
        ended = {run for run, found in statuses.items() if found is None or Status(found).is_final}
        return [
            queue
            for queue in queues
            if len(messages[queue]) >= _LOOKED_AT
            or any(_run_of(text) not in ended for text in messages[queue])
        ]

    def _next_messages(self, queues: Sequence[str]) -> dict[str, list[str]]:
        """Return by queue the messages next in its lanes, up to `_LOOKED_AT` of each."""
        tags = tags_of(self._redis)
        with self._redis.pipeline(transaction=False) as pipe:
            for queue in queues:
                for base in (f"{tag}{queue}" for tag in tags):
                    for lane in range(LANES):
                        pipe.lrange(lane_key(base, lane), -_LOOKED_AT, -1)
                    pipe.zrange(turns_key(base), 0, _LOOKED_AT - 1)
            answers = iter(pipe.execute())
        lists = len(tags) * (LANES + 1)
        return {
            queue: [text for _ in range(lists) for text in next(answers) if text != TURN_MARK]
            for queue in queues
        }

    def _likely_held(self, queues: Sequence[str], tags: Sequence[str]) -> list[str]:
        """Return those of many queues that have messages, and few others, by few commands.

        Few queues are not worth a round trip of their own.
        """
        if len(queues) <= _AT_ONCE:
            return list(queues)
        parts = [queues[at : at + _AT_ONCE] for at in range(0, len(queues), _AT_ONCE)]
        with self._redis.pipeline(transaction=False) as pipe:
            for part in parts:
                for tag in tags:
                    # Of turns, the last lane has a mark for each.
                    pipe.exists(
                        *(
                            lane_key(f"{tag}{queue}", lane)
                            for queue in part
                            for lane in range(LANES)
                        )
                    )
            answers = iter(pipe.execute())
        counts = [sum(next(answers) for _ in tags) for _ in parts]
        return [queue for part, count in zip(parts, counts, strict=True) if count for queue in part]


def _queue_state(answers: Iterator[Any], now_ms: int) -> QueueState:
    """Take a queue's answers: length and next message of each lane, then the next turn."""
    lanes = [(next(answers), next(answers)) for _ in range(LANES)]
    *urgent, start = (None if text == TURN_MARK else text for _, text in lanes)
    (turn,) = next(answers) or [None]
    urgent_s = max((_age_s(text, now_ms) for text in urgent if text), default=0.0)
    starts_s = max((_age_s(text, now_ms) for text in (start, turn) if text), default=0.0)
    length = sum(length for length, _ in lanes)
    return QueueState(length, max(urgent_s, starts_s), urgent_s, start or turn)


def _together(groups: Sequence[QueueState]) -> QueueState:
    """Return how a queue stands whose groups stand so."""
    if len(groups) == 1:
        return groups[0]
    return QueueState(
        sum(group.length for group in groups),
        max(group.oldest_s for group in groups),
        max(group.urgent_s for group in groups),
        next((group.next_start for group in groups if group.next_start), None),
    )


def _run_of(message: str) -> str:
    """Return the id of the run that a message is of; empty for a message that is not ours."""
    try:
        return str(json.loads(message)["headers"]["argsrepr"]).partition(" ")[0]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def _age_s(message: str, now_ms: int) -> float:
    return max(0.0, (now_ms - _published_ms(message, now_ms)) / 1000)


def _published_ms(message: str, now_ms: int) -> int:
    """Return when a message was published; `now_ms` for a message that is not ours."""
    try:
        return int(json.loads(message)["headers"]["published_ms"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return now_ms


def _sums(hashes: Iterable[Mapping[str, str]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for fields in hashes:
        found.update({name: int(count) for name, count in fields.items()})
    return dict(found)
