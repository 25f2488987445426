"""Transitions of requests that providers answer in batches, each in the partition of its run."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, partition_of
from sleipnir.scheduler.runs.model import Lease, Usage
from sleipnir.scheduler.store.economy.keys import COLLECTIONS
from sleipnir.scheduler.store.record import usage_text
from sleipnir.scheduler.store.transitions import Transitions

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import Event

# Requests of one transition.
_AT_ONCE = 200
# How often a process notes the name of a collection.
_NOTED_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request about to join a collection."""

    request_id: str  # 32 hexadecimal digits, the first two those of its run
    call: str  # id of the visit's wait
    collection: str  # the model, or the provider if one batch may be of several models
    body: str  # JSON text, as the provider gets it
    digest: str  # of the body
    tokens: int  # of the prompt, estimated
    deadline_s: float | None  # after that the visit goes on without the reply; None: never
    since_ms: int | None = None  # since when the visit waits for it; None: it begins to
    shares: bool = False  # whether it may share a line of the batch with equal ones
    named: str = ""  # node and model for which it counts
    hold: str = ""  # what it holds of budgets, JSON text


@dataclass(frozen=True, slots=True)
class Collected:
    """What waits in a collection."""

    count: int
    stored: int  # bytes
    oldest_ms: int | None  # when the first request joined


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a group got."""

    count: int
    bytes: int
    tokens: int
    stored: int
    full: bool  # whether a request was left for which there is no room


class Settled(NamedTuple):
    """What a budget is to be told of a request."""

    partition: str
    name: str  # request and group
    tokens: int
    nano_usd: int
    hold: str


class Requests:
    """Requests for providers' batches."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client
        self._announced: dict[str, float] = {}

    # ---- for visits

    def join(self, lease: Lease, request: NewRequest, event: Event | None = None) -> None:
        """Park a visit on a request, which joins its collection in the same transition.

        A request of this id that has joined already, or is with the provider, does not join again.

        Raises:
            RunClosed, StaleVisit, StepFailing: as for other ways to park.
        """
        self.announce(request.collection)
        body = base64.b64encode(zlib.compress(request.body.encode(), 6)).decode()
        deadline_s = request.deadline_s
        self._store.call(
            "join_collection",
            lease.run_id,
            lease.visit,
            lease.token,
            request.request_id,
            request.call,
            request.collection,
            "" if request.since_ms is None else request.since_ms,
            -1 if deadline_s is None else int(deadline_s * 1000),
            len(request.body.encode()),
            len(body),
            request.tokens,
            request.digest,
            body,
            request.hold,
            request.named,
            int(request.shares),
            self._store.event(event),
        )

    def announce(self, collection: str) -> None:
        """Note the name of a collection before it gets a request, so that somebody looks there."""
        noted = self._announced.get(collection)
        if noted is not None and monotonic() - noted < _NOTED_AGAIN_S:
            return
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(COLLECTIONS, {collection: self._store.clock.now_ms()})
            pipe.pexpire(COLLECTIONS, 2 * int(self._store.settings.retention_s * 1000))
            pipe.execute()
        self._announced[collection] = monotonic()

    # ---- for those who send them

    def collected(self, collection: str) -> Collected:
        """Return how many requests wait in a collection, and since when the first does."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zcard(f"{partition}:collected:{collection}")
                pipe.zrange(f"{partition}:collected:{collection}", 0, 0, withscores=True)
                pipe.hget(f"{partition}:collecting", collection)
            answers = pipe.execute()
        joined = [int(first[0][1]) for first in answers[1::3] if first]
        stored = sum(int(each or 0) for each in answers[2::3])
        return Collected(sum(answers[::3]), stored, min(joined, default=None))

    def claim(
        self,
        partition: str,
        collection: str,
        group: str,
        most: int,
        room: Sequence[int],
        *,
        alone: bool,
    ) -> Claimed:
        """Move requests of a partition to a group.

        Args:
            room: bytes, bytes stored and tokens left.
            alone: whether the first is taken in any case, as the group is empty.
        """
        claim = self._store.transition("claim_requests")
        found = claim(
            partition,
            collection,
            group,
            min(most, _AT_ONCE),
            *room,
            int(alone),
            clock=self._store.clock.argument(),
        )
        return Claimed(
            *(int(found.count), int(found.bytes), int(found.tokens), int(found.stored)),
            full=bool(found.full),
        )

    def ids_of(self, group: str, *, awaited: bool | None = None) -> Iterator[tuple[str, list[str]]]:
        """Yield the partitions with requests of a group, and their ids.

        Args:
            awaited: only those that somebody waits for, or only others; None: all.
        """
        kinds = ["sent", "unwanted"] if awaited is None else ["sent" if awaited else "unwanted"]
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                for kind in kinds:
                    pipe.zrange(f"{partition}:{kind}:{group}", 0, -1)
            answers = pipe.execute()
        for number, partition in enumerate(ALL_PARTITIONS):
            found = answers[number * len(kinds) : (number + 1) * len(kinds)]
            if ids := [request_id for each in found for request_id in each]:
                yield partition, ids

    def awaited(self, group: str) -> int:
        """Return how many requests of a group somebody waits for."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zcard(f"{partition}:sent:{group}")
            return sum(pipe.execute())

    def bodies(self, group: str) -> Iterator[tuple[str, str, str]]:
        """Yield ids and bodies of a group's requests, some at a time.

        The third is a digest of the body, "" if its line must not be shared with equal ones.
        """
        for partition, ids in self.ids_of(group):
            for first in range(0, len(ids), _AT_ONCE):
                some = ids[first : first + _AT_ONCE]
                with self._redis.pipeline(transaction=False) as pipe:
                    for request_id in some:
                        name = f"{partition}:request:{request_id}"
                        pipe.hmget(name, "body", "digest", "shares")
                    answers = pipe.execute()
                for request_id, (body, digest, shares) in zip(some, answers, strict=True):
                    if body is not None:
                        text = zlib.decompress(base64.b64decode(body)).decode()
                        yield request_id, text, digest if shares == "1" else ""

    def forget_bodies(self, group: str) -> None:
        """Remove what the provider has by now."""
        for partition, ids in self.ids_of(group):
            self._in_pieces("forget_bodies", partition, [group], ids)

    def move(self, group: str, other: str, ids: Iterable[str]) -> None:
        """Move requests to another group."""
        by_partition: dict[str, list[str]] = {}
        for request_id in ids:
            by_partition.setdefault(partition_of(request_id), []).append(request_id)
        for partition, some in by_partition.items():
            self._in_pieces("move_requests", partition, [group, other], some)

    def _in_pieces(
        self, name: str, partition: str, arguments: Sequence[str], ids: Sequence[str]
    ) -> None:
        transition = self._store.transition(name)
        for first in range(0, len(ids), _AT_ONCE):
            some = ids[first : first + _AT_ONCE]
            transition(partition, *arguments, *some, clock=self._store.clock.argument())

    def deliver(
        self,
        request_id: str,
        group: str,
        result: Any,
        usage: Usage | None = None,
        *,
        failed: bool = False,
    ) -> str:
        """Deliver what the provider says to a request, once.

        Args:
            result: a JSON object.
            usage: what the provider charges for it; counts even if nobody waits any more.
            failed: whether the provider has tried, and given no reply.

        Returns:
            `delivered`; `dropped`: nobody waits; `unknown`: it is done, or of another group.
        """
        used = "0 0"
        if usage is not None:
            nano_usd = round((usage.cost_usd or 0.0) * 1e9)
            used = f"{usage.prompt_tokens + usage.completion_tokens} {nano_usd}"
        try:
            partition_of(request_id)
        except ValueError:  # not one of ours
            return "unknown"
        found = self._store.call(
            "deliver_reply",
            request_id,
            group,
            json.dumps(result),
            "failed" if failed else usage_text(usage),
            used,
        )
        return str(found.outcome)

    def is_of(self, request_id: str, group: str) -> bool:
        """Return whether a request is, or was, of a group; ids of others are made up."""
        try:
            partition = partition_of(request_id)
        except ValueError:
            return False
        return bool(self._redis.hget(f"{partition}:request:{request_id}", "group") == group)

    def give_up(self, request_id: str) -> None:
        """Have the visit that waits for a request go on without its reply."""
        name = f"{partition_of(request_id)}:request:{request_id}"
        run_id, visit, call = self._redis.hmget(name, "run", "visit", "call")
        if run_id is not None:
            with suppress(TransitionRefused):
                self._store.call("close_wait", run_id, visit, call, "", "")

    # ---- budgets

    def settled(self) -> Iterator[Settled]:
        """Yield what budgets are to be told."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hgetall(f"{partition}:settled")
            answers = pipe.execute()
        for partition, found in zip(ALL_PARTITIONS, answers, strict=True):
            for name, text in found.items():
                tokens, nano_usd, hold = text.split(" ", 2)
                yield Settled(partition, name, int(tokens), int(nano_usd), hold)

    def forget_settled(self, settled: Settled) -> None:
        """Note that the budgets know."""
        self._redis.hdel(f"{settled.partition}:settled", settled.name)
