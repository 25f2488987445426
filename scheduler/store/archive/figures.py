"""What became of archiving, and what still waits for it."""

from __future__ import annotations

from typing import Any, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.keys import ARCHIVE_FIGURES, archivable_key


@dataclass(frozen=True, slots=True)
class ArchiveFigures:
    """How archiving stands."""

    waiting: int  # root runs that have ended and are not archived
    late_s: float  # by how much the one is late that has waited longest
    archived: int  # runs, since the database was created, child runs included
    bytes: int  # of their objects
    failures: int
    failing_since_ms: int | None  # None: the last round was without a failure
    reason: str  # of the last failure


NOTHING_ARCHIVED: Final = ArchiveFigures(0, 0.0, 0, 0, 0, None, "")
_MOST_OF_REASON: Final = 500  # characters


class ArchiveCounts:
    """The figures in Redis."""

    def __init__(self, client: Any, clock: RedisClock) -> None:
        self._redis = client
        self._clock = clock

    def note(self, archived: int, size: int, failures: int, reason: str) -> None:
        """Count what came of a round."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hincrby(ARCHIVE_FIGURES, "archived", archived)
            pipe.hincrby(ARCHIVE_FIGURES, "bytes", size)
            if failures:
                pipe.hincrby(ARCHIVE_FIGURES, "failures", failures)
                pipe.hsetnx(ARCHIVE_FIGURES, "failing_since", self._clock.now_ms())
                pipe.hset(ARCHIVE_FIGURES, "reason", reason[:_MOST_OF_REASON])
            elif archived:
                pipe.hdel(ARCHIVE_FIGURES, "failing_since")
            pipe.execute()

    def read(self) -> ArchiveFigures:
        """Return how archiving stands, with one round trip to each node of Redis."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(ARCHIVE_FIGURES)
            for partition in ALL_PARTITIONS:
                pipe.zcard(archivable_key(partition))
                pipe.zrange(archivable_key(partition), 0, 0, withscores=True)
            noted, *answers = pipe.execute()
        due = [score for found in answers[1::2] for _, score in found]
        late_ms = self._clock.now_ms() - min(due) if due else 0
        since = noted.get("failing_since")
        return ArchiveFigures(
            waiting=sum(answers[::2]),
            late_s=max(0.0, late_ms / 1000),
            archived=int(noted.get("archived", 0)),
            bytes=int(noted.get("bytes", 0)),
            failures=int(noted.get("failures", 0)),
            failing_since_ms=None if since is None else int(since),
            reason=noted.get("reason", ""),
        )
