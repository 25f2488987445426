"""A run with all that belongs to it, read at one instant: what checks and repairs look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import FINAL, Checkpoint
from sleipnir.scheduler.store.keys import map_visit_of, parse_visit_id

NEVER_EXPIRES = -1
ABSENT = -2
UNREADABLE = "unreadable"  # the status of a visit whose record makes no sense


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many things a visit waits for, or has waited for and not used yet."""

    rows: int = 0
    open: int = 0  # have not come about
    still: int = 0  # of these: do not without a person

    @classmethod
    def parse(cls, waits: str) -> RowCounts:
        if not waits:
            return cls()
        rows, unfinished, still, _fresh, _mode = waits.split(" ")
        return cls(int(rows), int(unfinished), int(still))


@dataclass(frozen=True, slots=True)
class WaitRow:
    """One thing that a visit waits for, by the id of the call that asked for it."""

    call: str
    kind: str  # "" where only an index names it
    is_open: bool
    detail: str  # of an open one: of a child its run id, of a question the root that may answer
    is_timed: bool  # its timer is to be there
    timer: int | None = None  # ms
    asked_at: int | None = None  # ms, in the inbox
    has_question: bool = False
    escalated_at: int | None = None  # ms, among what that root's model may answer

    @classmethod
    def parse(cls, call: str, text: str) -> WaitRow:
        """Read the form that lua/lib/waiting.lua describes.

        Raises:
            ValueError: if it is anything else.
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
    """What the hash `visits` says of one visit."""

    status: str
    tries: int
    turns: int
    counted: RowCounts

    @classmethod
    def parse(cls, packed: str) -> OpenVisit:
        """Read the form that lua/lib/store.lua packs; anything else is UNREADABLE."""
        try:
            status, _token, tries, _attempt, _began, _published, turns, waits = packed.split(" ", 7)
            return cls(status, int(tries), int(turns), RowCounts.parse(waits))
        except ValueError:
            return cls(UNREADABLE, 0, 0, RowCounts())

    @property
    def is_busy(self) -> bool:
        """Whether it can go on without a person."""
        return self.status != "waiting" or self.counted.open > self.counted.still


@dataclass(frozen=True, slots=True)
class Missing:
    """An item of a map that was handed out, has no result, and will get none by itself."""

    index: int
    is_open: bool  # its invocation is
    has_item: bool


@dataclass(frozen=True, slots=True)
class MapTrace:
    """What is kept of a map."""

    invocations: int  # under way, as counted
    following: int  # the index of the next item to hand out
    total: int
    halted: bool  # a failure stopped it
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class VisitTrace:
    """Everything in a partition that names one visit; None for what does not exist."""

    visit: str
    open: OpenVisit | None
    timer: int | None  # ms
    waits: tuple[WaitRow, ...]
    map: MapTrace | None
    turns: int  # entries of its conversation
    kept: str = ""  # set aside for another try: whether what it left `lasts` or `expires`

    def waits_for(self, kind: str) -> list[WaitRow]:
        """What of a kind it waits for."""
        return [row for row in self.waits if row.is_open and row.kind == kind]

    @property
    def is_invocation(self) -> bool:
        return parse_visit_id(self.visit)[2] is not None


@dataclass(frozen=True, slots=True)
class Child:
    run_id: str
    status: str | None  # None: its record is gone
    parent: str  # "<run> <visit>"


@dataclass(frozen=True, slots=True)
class Parent:
    status: str | None  # None: its record is gone
    waits: tuple[WaitRow, ...]  # of the visit that started this run, or waits for it
    lists_us: bool
    has_spawned_us: bool  # its model has, and it counts us as alive

    def wants(self, run_id: str) -> bool:
        """Return whether a visit waits for that child, or a model may yet do so."""
        return self.has_spawned_us or any(
            row.is_open and row.kind == "child" and row.detail == run_id for row in self.waits
        )


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """One run with all that belongs to it, read at one instant."""

    run_id: str
    record: Mapping[str, str]  # empty: there is no such run
    traces: tuple[VisitTrace, ...]
    staged: frozenset[str]  # nodes
    pending: tuple[str, ...]  # visits
    deadline_timer: int | None  # ms
    expiry_timer: int | None  # ms
    children: tuple[Child, ...]
    parent: Parent | None
    spawned: frozenset[str]  # of the children those that its model has started and that are alive
    expires_in: Mapping[str, int]  # kind of key → ms, NEVER_EXPIRES or ABSENT
    messages: int  # in its inbox, read or not
    # Only in a complete check: `<run> <question>` that its model is told of, and no run asks.
    unasked: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]
    digest: str  # of what was read: equal as long as nothing changes
    # Name → ms that it has the run at; only in a complete check. Those of ids have no instants.
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
        """A branch failed for good: its siblings were dropped, the last one ends the run."""
        return "failing" in self.record

    @property
    def open_now(self) -> frozenset[str]:
        """The open visits, by id."""
        return frozenset(trace.visit for trace, _ in self.open_visits())

    def invocations_of(self, map_visit: str) -> int:
        """Return how many of a map's invocations are open."""
        return sum(map_visit_of(visit) == map_visit for visit in self.open_now)

    def counts_of(self, trace: VisitTrace) -> RowCounts:
        """What a visit's record should count of what it waits for."""
        unfinished = [row for row in trace.waits if row.is_open]
        waiting = {child.run_id for child in self.children if child.status == "waiting"}
        still = sum(
            row.detail in waiting if row.kind == "child" else row.kind != "timer"
            for row in unfinished
        )
        return RowCounts(sum(row.kind != "" for row in trace.waits), len(unfinished), still)

    def open_visits(self) -> Iterator[tuple[VisitTrace, OpenVisit]]:
        for trace in self.traces:
            if trace.open is not None:
                yield trace, trace.open


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A run whose keys do not hold what they should."""

    run_id: str
    text: str
