"""Records of a retry, as the store takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.events import RunRetried
from sleipnir.scheduler.runs.model import RunContext


@dataclass(frozen=True, slots=True)
class Beginning:
    """An earlier step that a retry repeats from; later checkpoints are superseded."""

    step: int
    frontier: tuple[str, ...]
    state: Mapping[str, str]  # before the step, key → JSON text
    visits: Mapping[str, int]  # by node, the frontier included
    # Failures in the later checkpoints that did not end the run: tolerated, and handled ones.
    gone_failures: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class OtherAgent:
    """The changed agent that a run or its child continues with."""

    run_id: str
    digest: str
    context: RunContext
    queues: Mapping[str, str]  # of its nodes, as `queues_of` returns them


@dataclass(frozen=True, slots=True)
class AnotherTry:
    """How to retry a run."""

    run_id: str
    tries: int  # number of tries so far
    window: int  # nodes of a step that execute concurrently
    event: RunRetried
    begin: Beginning | None = None  # None: where it stopped
    changes: Mapping[str, str] = field(default_factory=dict)  # changes to the state, as JSON texts
    checkpoint: str = ""  # replaces the last one before the step, as JSON text
    agent: OtherAgent | None = None
    children: tuple[OtherAgent, ...] = ()
    limit_ms: str = ""  # time limit; "" unchanged, "-" none
    shallow: bool = False  # start new children in place of those that did not succeed
