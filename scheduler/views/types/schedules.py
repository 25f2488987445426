"""Schedules."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import about


class ScheduleDocument(TypedDict):
    name: str
    agent: str
    agent_version: Annotated[str, about("the version that its runs use, 12 digits")]
    packed_at: Annotated[str, about("when that was taken from the agent's files")]
    cron: Annotated[list[str], about("cron lines; empty: `every` counts")]
    timezone: Annotated[str, about("of the cron lines")]
    every: Annotated[str | None, about("a duration such as 15m")]
    offset: Annotated[str, about("of `every`")]
    start: Annotated[str | None, about("no instant is before this")]
    end: Annotated[str | None, about("no instant is at or after this")]
    jitter: Annotated[str, about("an instant fires up to so much later")]
    overlap: Annotated[str, about("what to do while an earlier run is open")]
    catchup: Annotated[str, about("instants missed by no more than this fire late")]
    pause_on_failure: bool
    session: Annotated[str | None, about("the session that its runs continue")]
    prompt: str
    state: Annotated[dict[str, Any], about("keys that override `initial_state`")]
    vars: Annotated[dict[str, str], about("variables; secrets are masked")]
    labels: dict[str, str]
    queue: Annotated[str | None, about("queue of nodes that name none")]
    webhook: Annotated[str | None, about("URL that events of the runs are sent to")]
    paused: Annotated[str | None, about("why it is paused; null: it is not")]
    next_at: Annotated[list[str], about("the next instants, at most five")]
    last_run: Annotated[str | None, about("the run that it started last")]
    last_at: Annotated[str | None, about("the instant of that run")]
    waiting: Annotated[list[str], about("instants that wait for a run to end")]
    fired: Annotated[int, about("instants that have started a run")]
    skipped: Annotated[int, about("instants left out as a run was open")]
    missed: Annotated[int, about("instants that were too late to fire")]


class ShownScheduleDocument(ScheduleDocument):
    files_changed: Annotated[
        bool | None, about("whether the agent's files differ from that version; null: not here")
    ]


class ScheduleListDocument(TypedDict):
    schedules: list[ScheduleDocument]


class TriggeredDocument(TypedDict):
    run_id: str


class BackfilledDocument(TypedDict):
    started: Annotated[list[str], about("ids of the new runs")]
    existing: Annotated[int, about("instants that had a run already")]
    waiting: Annotated[int, about("instants that start when the run before them ends")]
    skipped: int
