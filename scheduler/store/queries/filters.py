"""Filters of run lists, and the indexes that can answer them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import FINAL, Status

_OPEN = frozenset(Status) - FINAL
# Statuses with an index of their own; runs of other statuses are in a larger one.
_OWN_INDEX = frozenset({Status.WAITING, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT})
# Conditions that no index covers.
UNINDEXED = frozenset({"text", "cause", "cost", "took"})


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions on runs, all of which must hold; an empty filter matches everything."""

    statuses: frozenset[Status] = frozenset()  # one of these
    agents: tuple[str, ...] = ()  # one of these
    batch: str | None = None
    labels: tuple[tuple[str, str], ...] = ()  # all of these
    since_ms: int | None = None  # created at this instant or later
    until_ms: int | None = None  # created before this instant
    # Include child runs; their batch and labels are those of their root.
    children: bool = False
    # Searched for in the id (as a prefix), the names of the agent, the batch and its item, the
    # error, the start of the prompt.
    text: str | None = None
    cause: str | None = None  # the kind of their failure, as `runs.reasons.cause_of` names it
    cost_above_usd: float | None = None  # including child runs
    took_above_s: float | None = None  # all tries together; also for open runs
    oldest_first: bool = False

    @property
    def is_bounded_in_time(self) -> bool:
        return self.since_ms is not None or self.until_ms is not None

    @property
    def is_searched(self) -> bool:
        """Whether matching needs the runs' records."""
        return bool(self.conditions() & UNINDEXED)

    def conditions(self) -> frozenset[str]:
        """Return the names of the conditions set, but for the time, which every index covers."""
        named = {
            "statuses": self.statuses,
            "agents": self.agents,
            "batch": self.batch is not None,
            "text": self.text is not None,
            "cause": self.cause is not None,
            "cost": self.cost_above_usd is not None,
            "took": self.took_above_s is not None,
            **{f"label {pair}": True for pair in self.labels},
        }
        return frozenset(name for name, given in named.items() if given)


@dataclass(frozen=True, slots=True)
class Lead:
    """Indexes that together contain every matching run, and the conditions that they ensure."""

    indexes: tuple[str, ...]  # names within a partition
    ensures: frozenset[str]


def leads(wanted: RunFilter) -> Iterator[Lead]:
    """Yield every set of indexes that finds the matching runs; there is at least one."""
    if wanted.children:
        # No index tells anything else about child runs.
        yield from (Lead((*lead.indexes, "childruns"), frozenset()) for lead in _of_roots(wanted))
    else:
        yield from _of_roots(wanted)


def memberships(wanted: RunFilter) -> dict[str, tuple[str, ...]]:
    """Return the conditions that some indexes decide exactly, with these indexes."""
    if wanted.children:
        return {}
    return {name: lead.indexes for lead in _of_roots(wanted) for name in lead.ensures}


def _of_roots(wanted: RunFilter) -> Iterator[Lead]:
    if not wanted.conditions() - UNINDEXED:
        yield Lead(("runs",), frozenset())
    if wanted.statuses:
        yield _of_statuses(wanted.statuses)
    if wanted.agents:
        agents = tuple(f"agent:{agent}" for agent in dict.fromkeys(wanted.agents))
        yield Lead(agents, frozenset({"agents"}))
    if wanted.batch is not None:
        yield Lead((f"batch:{wanted.batch}",), frozenset({"batch"}))
    for pair in wanted.labels:
        yield Lead((f"label:{pair[0]}={pair[1]}",), frozenset({f"label {pair}"}))


def _of_statuses(statuses: frozenset[Status]) -> Lead:
    if Status.SUCCEEDED in statuses:
        ensured = frozenset({"statuses"} if statuses == frozenset(Status) else ())
        return Lead(("runs",), ensured)
    indexes = {str(status) for status in statuses & _OWN_INDEX}
    if not statuses & (_OPEN - _OWN_INDEX):
        return Lead(tuple(sorted(indexes)), frozenset({"statuses"}))
    ensured = frozenset({"statuses"} if statuses >= _OPEN else ())
    return Lead(("open", *sorted(indexes - {"waiting"})), ensured)


@dataclass(frozen=True, slots=True)
class ListedFields:
    """The fields of a record that indexed conditions are about."""

    status: str
    agent: str
    batch: str | None
    labels: Mapping[str, str]

    def meet(self, wanted: RunFilter, unsure: frozenset[str]) -> bool:
        """Return whether the conditions named in `unsure` hold."""
        return (
            ("statuses" not in unsure or self.status in wanted.statuses)
            and ("agents" not in unsure or self.agent in wanted.agents)
            and ("batch" not in unsure or self.batch == wanted.batch)
            and all(
                self.labels.get(key) == value
                for key, value in wanted.labels
                if f"label {(key, value)}" in unsure
            )
        )


@dataclass(frozen=True, slots=True)
class SearchedFields:
    """The fields of a run that searches are about."""

    run_id: str
    texts: tuple[str, ...]  # agent, batch and its item, error, start of the prompt
    cause: str | None  # the kind of its failure
    cost_usd: float
    took_s: float

    def meet(self, wanted: RunFilter) -> bool:
        """Return whether the conditions that no index covers hold, ignoring case."""
        return (
            (wanted.text is None or self._have(wanted.text.casefold()))
            and (wanted.cause is None or self.cause == wanted.cause)
            and (wanted.cost_above_usd is None or self.cost_usd > wanted.cost_above_usd)
            and (wanted.took_above_s is None or self.took_s > wanted.took_above_s)
        )

    def _have(self, part: str) -> bool:
        return self.run_id.startswith(part) or any(part in text.casefold() for text in self.texts)
