"""Another try of a run that is over, as the store takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.events import RunRetried
from sleipnir.scheduler.runs.model import RunContext


@dataclass(frozen=True, slots=True)
class Beginning:
    """An earlier step that a try begins with anew; what came after it is superseded."""

    step: int
    frontier: tuple[str, ...]
    state: Mapping[str, str]  # before it, key → JSON text
    visits: Mapping[str, int]  # by node, those of the frontier included


@dataclass(frozen=True, slots=True)
class OtherAgent:
    """What a run or its child goes on with, if that is not what it began with."""

    run_id: str
    digest: str
    context: RunContext


@dataclass(frozen=True, slots=True)
class AnotherTry:
    """How a run that is over is to go on."""

    run_id: str
    tries: int  # that it has had
    window: int  # nodes of a step that execute at once
    event: RunRetried
    begin: Beginning | None = None  # None: where it stopped
    changes: Mapping[str, str] = field(default_factory=dict)  # of the state, as JSON texts
    checkpoint: str = ""  # the last one before it, with the changes, as JSON text
    agent: OtherAgent | None = None
    children: tuple[OtherAgent, ...] = ()
    limit_ms: str = ""  # of time; "" the one there is, "-" none
    shallow: bool = False  # children that did not succeed are not retried, new ones begin
