"""Records of a consistent reading of a run, for checks and repairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import FINAL, Checkpoint

NEVER_EXPIRES = -1
ABSENT = -2
UNREADABLE = "unreadable"  # the status of a visit with an invalid record


# What visits wait for that needs no person; whether a child does, its run tells.
_NOT_PERSONS = ("timer", "build", "batch")


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Counts of the waits of a visit, closed ones that it has not used included."""

    rows: int = 0
    open: int = 0  # not closed yet
    still: int = 0  # open ones that need a person

    @classmethod
    def parse(cls, waits: str) -> RowCounts:
        if not waits:
            return cls()
        rows, unfinished, still, _fresh, _mode = waits.split(" ")
        return cls(int(rows), int(unfinished), int(still))


@dataclass(frozen=True, slots=True)
class WaitRow:
    """One wait of a visit."""

    call: str
    kind: str  # "" if only an index names it
    is_open: bool
    detail: str  # of an open wait: a child's run id; the root that may answer a question
    is_timed: bool  # it must have a timer
    timer: int | None = None  # ms
    asked_at: int | None = None  # ms, in the inbox
    has_question: bool = False
    escalated_at: int | None = None  # ms, in the questions open to that root's model

    @classmethod
    def parse(cls, call: str, text: str) -> WaitRow:
        """Parse a row as lua/lib/waiting.lua describes it.

        Raises:
            ValueError: it is invalid.
        """
        if not text:
            return cls(call, "", False, "", False)
        kind, state, rest = text.split(" ", 2)
        if state != "open":
            return cls(call, kind, False, "", False)
        _since, allowed, detail = rest.split(" ", 2)
        return cls(call, kind, True, detail, int(allowed) >= 0)


@dataclass(frozen=True, slots=True)
class OpenVisit:
    """A visit as packed in the hash `visits`."""

    status: str
    tries: int
    turns: int
    counted: RowCounts

    @classmethod
    def parse(cls, packed: str) -> OpenVisit:
        """Parse a visit packed by lua/lib/store.lua; anything else is UNREADABLE."""
        try:
            status, _token, tries, _attempt, _began, _published, turns, waits = packed.split(" ", 7)
            return cls(status, int(tries), int(turns), RowCounts.parse(waits))
        except ValueError:
            return cls(UNREADABLE, 0, 0, RowCounts())

    @property
    def is_busy(self) -> bool:
        """Whether it can continue without a person."""
        return self.status != "waiting" or self.counted.open > self.counted.still


@dataclass(frozen=True, slots=True)
class Missing:
    """A map item that was handed out, has no result, and will not get one by itself."""

    index: int
    has_item: bool


@dataclass(frozen=True, slots=True)
class MapTrace:
    """The stored state of a map."""

    invocations: int  # running, as counted
    halted: bool  # a failure stopped it
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class VisitTrace:
    """Everything in a partition that refers to one visit; None for what does not exist."""

    visit: VisitId
    open: OpenVisit | None
    timer: int | None  # ms
    waits: tuple[WaitRow, ...]
    map: MapTrace | None
    turns: int  # entries of its conversation
    kept: str = ""  # set aside for a retry: whether what it left `lasts` or `expires`

    def waits_for(self, kind: str) -> list[WaitRow]:
        """Return its open waits of a kind."""
        return [row for row in self.waits if row.is_open and row.kind == kind]

    @property
    def is_invocation(self) -> bool:
        return self.visit.item is not None


@dataclass(frozen=True, slots=True)
class Child:
    run_id: str
    status: str | None  # None: its record is gone
    parent: str  # "<run> <visit>"


@dataclass(frozen=True, slots=True)
class Parent:
    status: str | None  # None: its record is gone
    waits: tuple[WaitRow, ...]  # of the visit that started this run or waits for it
    lists_us: bool
    has_spawned_us: bool  # its model has, and counts this run as alive

    def wants(self, run_id: str) -> bool:
        """Return whether a visit waits for that child, or a model may still do so."""
        return self.has_spawned_us or any(
            row.is_open and row.kind == "child" and row.detail == run_id for row in self.waits
        )


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run with everything that belongs to it, read at one instant."""

    run_id: str
    record: Mapping[str, str]  # empty: the run does not exist
    traces: tuple[VisitTrace, ...]
    staged: frozenset[str]  # nodes
    pending: tuple[str, ...]  # visits
    deadline_timer: int | None  # ms
    expiry_timer: int | None  # ms
    children: tuple[Child, ...]
    parent: Parent | None
    spawned: frozenset[str]  # children that its model has started and that are alive
    expires_in: Mapping[str, int]  # kind of key → ms, NEVER_EXPIRES or ABSENT
    messages: int  # in its inbox, read or not
    # `<run> <question>` open to its model but asked by no run; only in a full check.
    unasked: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]
    digest: str  # of everything read, to detect changes
    # Name → the run's score, ms (ids have none); only in a full check.
    indexes: Mapping[str, int]

    @property
    def status(self) -> str:
        return self.record["status"]

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def step(self) -> int:
        return int(self.record["step"])

    @property
    def frontier(self) -> tuple[str, ...]:
        return tuple(self.record["frontier"].split(" "))

    @property
    def is_failing(self) -> bool:
        """Whether a branch failed for good; siblings were dropped, the last one ends the run."""
        return "failing" in self.record

    @property
    def open_now(self) -> frozenset[VisitId]:
        """Return the ids of the open visits."""
        return frozenset(trace.visit for trace, _ in self.open_visits())

    def invocations_of(self, map_visit: str) -> int:
        """Return the number of open invocations of a map."""
        return sum(visit.map_visit == map_visit for visit in self.open_now)

    def counts_of(self, trace: VisitTrace) -> RowCounts:
        """Return what a visit's record should count as its waits."""
        unfinished = [row for row in trace.waits if row.is_open]
        waiting = {child.run_id for child in self.children if child.status == "waiting"}
        still = sum(
            row.detail in waiting if row.kind == "child" else row.kind not in _NOT_PERSONS
            for row in unfinished
        )
        return RowCounts(sum(row.kind != "" for row in trace.waits), len(unfinished), still)

    def open_visits(self) -> Iterator[tuple[VisitTrace, OpenVisit]]:
        for trace in self.traces:
            if trace.open is not None:
                yield trace, trace.open


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A run whose keys have unexpected contents."""

    run_id: str
    text: str
