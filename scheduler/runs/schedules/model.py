"""A schedule as it is defined, and as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from sleipnir.records import dataclass

# Instants that wait for the open run to end.
MOST_BUFFERED: Final = 100
MOST_SCHEDULES: Final = 10_000
LEAST_CATCHUP_S: Final = 10


class Overlap(StrEnum):
    """What becomes of an instant at which the run of an earlier one is still open."""

    SKIP = "skip"  # it is left out
    BUFFER_ONE = "buffer-one"  # the latest such instant starts its run when the open one ends
    BUFFER_ALL = "buffer-all"  # all of them do, one after the other
    CANCEL_OTHER = "cancel-other"  # the open run is cancelled first
    ALLOW_ALL = "allow-all"  # both run


@dataclass(frozen=True, slots=True)
class Timing:
    """At which instants a schedule fires; either `cron` or `every_s` is given."""

    cron: tuple[str, ...] = ()  # lines of five fields; an instant of any of them counts
    timezone: str = "UTC"  # of the lines, an IANA name
    every_s: int | None = None
    offset_s: int = 0  # of `every_s`, from whole multiples of it since 1970
    start_ms: int | None = None  # no instant before this, nor at or after `end_ms`
    end_ms: int | None = None
    jitter_s: int = 0  # an instant fires up to this much later, always by the same


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule: what starts when, and how far it is."""

    name: str
    agent: str  # the agent's name
    digest: str  # of its bundle, which all runs use
    timing: Timing
    # What was asked for, by the names of the flags: prompt, set, var, label,
    # queue, webhook.
    given: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # variables whose values are not shown
    agent_path: str | None = None  # where the agent was found, to compare it with its files
    overlap: Overlap = Overlap.SKIP
    catchup_s: int = 600  # instants that were missed by no more than this fire late
    pause_on_failure: bool = False
    session: str | None = None  # of a normal agent, which all runs continue
    packed_ms: int = 0  # when the bundle was made
    # How far it is; these change with every firing.
    revision: int = 0
    next_ms: int | None = None  # the next instant; None if there is none, or it is paused
    paused: str | None = None  # why it is paused; None if it is not
    last_run: str | None = None
    last_ms: int | None = None  # the instant of that run
    buffered: tuple[int, ...] = ()  # instants that wait for it to end
    fired: int = 0
    skipped: int = 0
    missed: int = 0

    @property
    def is_paused(self) -> bool:
        return self.paused is not None
