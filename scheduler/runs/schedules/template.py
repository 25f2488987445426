"""The run that a schedule starts at each of its instants, without what differs between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sleipnir.graphs.state import PROMPT_KEY, encode
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.conversation.sessions import Session
from sleipnir.scheduler.runs.labels import MOST_LABELS
from sleipnir.scheduler.runs.model import NewRun, RunContext
from sleipnir.scheduler.runs.schedules.model import Schedule
from sleipnir.scheduler.runs.submit import seed_text

# The state key and the label with the instant, and the label with the schedule's name.
SCHEDULED_AT = "scheduled_at"
SCHEDULE = "schedule"
_OWN_LABELS = 2
# What is not stored of a run that has none of it.
_NOTHING: Mapping[str, Any] = {
    "timeout_s": None,
    "labels": {},
    "warnings": (),
    "queues": {},
    "webhook": None,
    "context": {},
}


def require_room_for_labels(labels: Mapping[str, str]) -> None:
    """Check that a schedule's own labels can be added to the runs' others.

    Raises:
        SubmissionRefused: there are too many, or one has a name of ours.
    """
    if len(labels) > MOST_LABELS - _OWN_LABELS:
        raise SubmissionRefused(
            f"{len(labels)} labels; runs of a schedule may have {MOST_LABELS - _OWN_LABELS} "
            "beside its own two"
        )
    for name in (SCHEDULE, SCHEDULED_AT):
        if name in labels:
            raise SubmissionRefused(f"the label '{name}' is the schedule's own: use another name")


def to_text(run: NewRun) -> str:
    """Return a run as it is stored with its schedule."""
    context = json.loads(replace(run.context, root="", agent_path=None).to_json())
    found = {
        "start": run.start,
        "type": run.start_type,
        "state": dict(run.state),
        "context": context,
        "timeout_s": run.timeout_s,
        "labels": dict(run.labels),
        "warnings": list(run.warnings),
        "queues": dict(run.queues),
        "webhook": run.webhook,
    }
    kept = {name: value for name, value in found.items() if value}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def run_at(
    text: str, schedule: Schedule, instant: int, at: str, run_id: str, session: Session | None
) -> NewRun:
    """Return the run of an instant.

    Args:
        text: the schedule's run as `to_text` returns it.
        at: the instant as RFC 3339 text.
        session: as it is now, if the schedule continues one.
    """
    found: dict[str, Any] = {**_NOTHING, **json.loads(text)}
    context = replace(
        RunContext.from_json(json.dumps(found["context"])),
        root=run_id,
        agent_path=schedule.agent_path,
    )
    state = dict(found["state"])
    if not context.converses:
        state[SCHEDULED_AT] = encode(at)
    run = NewRun(
        run_id=run_id,
        agent=schedule.agent,
        digest=schedule.digest,
        start=found["start"],
        start_type=found["type"],
        state=state,
        context=context,
        timeout_s=found["timeout_s"],
        labels={**found["labels"], SCHEDULE: schedule.name, SCHEDULED_AT: at},
        warnings=tuple(found["warnings"]),
        queues=found["queues"],
        webhook=found["webhook"],
        schedule=schedule.name,
    )
    return run if session is None else _continuing(run, session)


def _continuing(run: NewRun, session: Session) -> NewRun:
    """Return a run that begins with the memory of a session's last one."""
    remembered = {
        key: seed_text(key, value)
        for key, value in session.seeds(without_todos=False).items()
        if key != PROMPT_KEY
    }
    context = run.context
    return replace(
        run,
        state={**remembered, **run.state},
        context=replace(
            context,
            variables=session.variables(context.variables),
            session=session.name,
        ),
        session=(session.place, session.last_run or ""),
        continues=session.continued_run,
    )
