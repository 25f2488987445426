"""A schedule as somebody asks for it: by flags, a request's body, or a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
)

from sleipnir.scheduler.client.forms import Duration, Texts, filled_in
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.schedules.instants import require_timing
from sleipnir.scheduler.runs.schedules.model import LEAST_CATCHUP_S, Schedule, Timing
from sleipnir.scheduler.runs.time_bounds import parse_time_bound
from sleipnir.scheduler.store.clock import to_rfc3339

_MOST_TEXT = 100_000  # characters of a prompt; longer ones are data, which belong into a file


def _instant(value: str) -> str:
    bound = parse_time_bound(value)
    if bound.is_age:
        raise ValueError(f"{value[:40]!a} is not an instant such as 2026-03-02T08:30:00Z")
    return to_rfc3339(bound.ms)


# Names of fields in requests for runs, and of the flag in files.
OTHER_NAMES: Mapping[str, str] = {
    "state": "set",
    "vars": "var",
    "labels": "label",
    "pause-on-failure": "pause_on_failure",
}


def _names(field: str) -> AliasChoices:
    others = [other for other, name in OTHER_NAMES.items() if name == field]
    return AliasChoices(field, *others)


OverlapName = Literal["skip", "buffer-one", "buffer-all", "cancel-other", "allow-all"]
Instant = Annotated[str, AfterValidator(_instant)]


class WantedSchedule(BaseModel):
    """What a schedule is made of; names are those of the flags of `schedule create`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    agent: str = Field(description="the agent's name")
    cron: Texts = Field([], description="cron lines of five fields; either these or `every`")
    timezone: str = Field("UTC", description="of the cron lines, such as Europe/Berlin")
    every: Duration | None = Field(
        None, ge=1, description="a duration such as 15m, or seconds; either this or `cron`"
    )
    offset: Duration = Field(0, description="of `every`: how long after whole multiples of it")
    start: Instant | None = Field(None, description="the first instant is not before this")
    end: Instant | None = Field(None, description="no instant is at or after this")
    jitter: Duration = Field(0, description="an instant fires up to so much later")
    overlap: OverlapName = Field(
        "skip", description="what to do while the run of an earlier instant is open"
    )
    catchup: Duration = Field(
        600, ge=LEAST_CATCHUP_S, description="instants missed by no more than this fire late"
    )
    pause_on_failure: bool = Field(
        False,
        validation_alias=_names("pause_on_failure"),
        description="a run that fails or times out pauses the schedule",
    )
    paused: bool = Field(False, description="do not fire until it is resumed")
    prompt: str = Field("", max_length=_MOST_TEXT, description="of every run")
    set: dict[str, Any] = Field(
        {},
        validation_alias=_names("set"),
        description="keys that override `initial_state`",
    )
    var: dict[str, str] = Field(
        {},
        validation_alias=_names("var"),
        description="variables that the agent declares",
    )
    label: dict[str, str] = Field(
        {},
        validation_alias=_names("label"),
        description="labels to find the runs by",
    )
    queue: str | None = Field(None, description="queue of nodes that name none")
    webhook: str | None = Field(None, description="URL that events of the runs are sent to")
    session: str | None = Field(
        None, description="the session of a normal agent that all runs continue"
    )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Validate what was given.

        Raises:
            SubmissionRefused: it is not a schedule; names the field.
        """
        wanted = filled_in(cls, document, "the schedule")
        require_timing(wanted.timing())
        if wanted.session is not None and wanted.overlap == "allow-all":
            raise SubmissionRefused(
                "the runs of a session follow each other, so `overlap` cannot be allow-all: use "
                "buffer-all to have them wait"
            )
        return wanted

    def timing(self) -> Timing:
        """Return the instants that are meant."""
        return Timing(
            cron=tuple(self.cron),
            timezone=self.timezone,
            every_s=self.every,
            offset_s=self.offset,
            start_ms=_ms(self.start),
            end_ms=_ms(self.end),
            jitter_s=self.jitter,
        )


def wanted_of(schedule: Schedule) -> dict[str, Any]:
    """Return what a schedule was made of, for changes to it."""
    timing, given = schedule.timing, schedule.given
    return {
        "agent": schedule.agent,
        "cron": list(timing.cron),
        "timezone": timing.timezone,
        "every": timing.every_s,
        "offset": timing.offset_s,
        "start": None if timing.start_ms is None else to_rfc3339(timing.start_ms),
        "end": None if timing.end_ms is None else to_rfc3339(timing.end_ms),
        "jitter": timing.jitter_s,
        "overlap": str(schedule.overlap),
        "catchup": schedule.catchup_s,
        "pause_on_failure": schedule.pause_on_failure,
        "paused": schedule.is_paused,
        "prompt": given.get("prompt", ""),
        "set": dict(given.get("set", {})),
        "var": dict(given.get("var", {})),
        "label": dict(given.get("label", {})),
        "queue": given.get("queue"),
        "webhook": given.get("webhook"),
        "session": schedule.session,
    }


def _ms(instant: str | None) -> int | None:
    return None if instant is None else parse_time_bound(instant).ms
