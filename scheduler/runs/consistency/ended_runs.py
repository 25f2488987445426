"""Rules for ended runs, and for what names a run that is gone."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.document.finding import printable
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.snapshot import ABSENT, NEVER_EXPIRES, RunSnapshot, VisitTrace

# The parts of a run, besides its record, that outlive its end, and those removed with it.
_EXPIRING = (
    *("state", "history", "events", "logs", "children", "failures", "messages"),
    *("transcripts", "failed_transcripts", "superseded", "spawned"),
)
_TRANSIENT = ("visits", "pending", "questions", "escalations")
# Kept of a step that was not completed, for a retry.
_SET_ASIDE = ("staged", "kept", "mail")


def nothing_is_left(run: RunSnapshot) -> Iterator[str]:
    """Check that an ended run holds no visits, waits, questions or timers."""
    for kind in _TRANSIENT if run.status != Status.SUCCEEDED else (*_TRANSIENT, *_SET_ASIDE):
        if run.expires_in[kind] != ABSENT:
            yield f"it is {run.status} and still has {kind}"
    for trace in run.traces:
        yield from (f"it is {run.status} and {left}" for left in remains(trace))
    if run.deadline_timer is not None:
        yield f"it is {run.status} and its deadline still runs"


def remains(trace: VisitTrace) -> Iterator[str]:
    """Yield what indexes still contain of a visit, other than the hash of open visits."""
    if trace.timer is not None:
        yield f"visit {trace.visit} has a timer"
    for row in trace.waits:
        if row.kind and not trace.kept:
            yield f"visit {trace.visit} keeps what it waited for as {row.call}"
        elif row.timer is not None:
            yield f"visit {trace.visit} has a timer for what it waited for as {row.call}"
        if row.asked_at is not None:
            yield f"visit {trace.visit} is in the inbox"
        if row.has_question:
            yield f"visit {trace.visit} has a question"
    if trace.map is not None and not trace.kept:
        yield f"visit {trace.visit} has a map"
    if trace.turns and not trace.kept:
        yield f"visit {trace.visit} has a conversation"


def retention_is_watched(run: RunSnapshot) -> Iterator[str]:
    """Check that an ended run will be removed."""
    if run.expiry_timer is None:
        yield f"it is {run.status} and has no retention timer"


def everything_expires(run: RunSnapshot) -> Iterator[str]:
    """Check that the parts of an ended run expire, and its record does not."""
    for kind in (*_EXPIRING, *_SET_ASIDE):
        if run.expires_in[kind] == NEVER_EXPIRES:
            yield f"it is {run.status} and its {kind} never expires"
    if run.expires_in["run"] != NEVER_EXPIRES:
        yield f"it is {run.status} and its record expires, which leaves it counted"
    for trace in run.traces:
        if trace.kept == "lasts":
            yield f"it is {run.status}, and what visit {trace.visit} has left never expires"


def what_is_archived_is_gone(run: RunSnapshot) -> Iterator[str]:
    """Check that Redis has nothing any more of what an archive has."""
    for kind in (*_EXPIRING, *_SET_ASIDE):
        if kind != "children" and run.expires_in[kind] != ABSENT:
            yield f"it is archived, and its {kind} is here"


def nothing_names_no_run(run: RunSnapshot) -> Iterator[str]:
    """Check that nothing refers to a run without a record."""
    for kind, expires_in in run.expires_in.items():
        if expires_in == NEVER_EXPIRES:
            yield f"there is no such run, and its {kind} never expires"
    for trace in run.traces:
        yield from (f"there is no such run, and {left}" for left in remains(trace))
    for name in run.indexes:
        yield f"there is no such run, and the index '{printable(name)}' has it"
