"""Bodies of the API's acts: a JSON object each, validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from sleipnir.scheduler.client.forms import Duration, filled_in
from sleipnir.scheduler.client.hooks.wanted import WantedHook
from sleipnir.scheduler.client.inbound.wanted import WantedTrigger
from sleipnir.scheduler.client.rerun.many import MOST_SELECTED
from sleipnir.scheduler.client.schedules.wanted import OverlapName, WantedSchedule
from sleipnir.scheduler.runs.hooks.model import SECRET_KEPT_S
from sleipnir.scheduler.store.people.saved_views import MOST_NAME, MOST_QUERY
from sleipnir.worker.monitor.checked import CheckedModel
from sleipnir.worker.monitor.conditions import RunConditions

RunId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class SubmitBody(CheckedModel):
    """POST /api/v1/runs"""

    agent: str = Field(description="its name")
    prompt: str = Field("", description="`initial_prompt`")
    state: dict[str, Any] = Field({}, description="keys that override `initial_state`")
    vars: dict[str, str] = Field({}, description="variables that the agent declares")
    answers: dict[str, list[str]] = Field({}, description="in advance, by node")
    labels: dict[str, str] = Field({}, description="to find the run by")
    workdir: str | None = Field(None, description="of scripts and tools, on the monitor's machine")
    queue: str | None = Field(None, description="of nodes, also of child runs, that name none")
    webhook: str | None = Field(None, description="URL that events of the run are sent to")
    key: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="idempotency key: the same key returns the same run; another submission "
        "with it is refused",
    )


class BatchBody(CheckedModel):
    """POST /api/v1/batches"""

    agent: str = Field(description="its name")
    lines: str = Field(description="a run for each, as in the file of `sleipnir batch`")
    format: Literal["jsonl", "csv", "txt"] = Field("jsonl", description="of `lines`")
    columns: dict[str, str] = Field(
        {}, description="CSV: column to `prompt`, `id` or another key; to an empty text: left out"
    )
    name: str | None = Field(
        None, min_length=1, max_length=200, description="null: from the agent and the lines"
    )
    budget_usd: float | None = Field(None, gt=0, description="beyond which no call is made")
    webhook: str | None = Field(
        None, description="URL that events of the runs and the end of the batch are sent to"
    )
    skip_bad: bool = Field(False, description="leave out lines that cannot be used")


AgentChoice = Annotated[
    Literal["same", "current"],
    Field(description="the agent as the run began with it, or as it is now"),
]


class CancelBody(CheckedModel):
    """POST /api/v1/runs/ID/cancel"""

    reason: str = Field("", max_length=500, description="why it is cancelled")


class RetryBody(CheckedModel):
    """POST /api/v1/runs/ID/retry"""

    agent: AgentChoice = "same"
    digest: str | None = Field(
        None, description="with `current`: the expected version; another one is refused"
    )
    from_step: int | None = Field(
        None, ge=1, description="repeat from this step; null: continue where it ended"
    )


class MoveBody(CheckedModel):
    """POST /api/v1/runs/ID/move"""

    machine: str = Field(
        min_length=1,
        max_length=200,
        description="whose workers take the run and its child runs from now on; `any`: of all",
    )


class DrainBody(CheckedModel):
    """POST /api/v1/fleet/drain"""

    worker: str = Field(
        min_length=1,
        max_length=300,
        description="name of a worker, or of a machine for all its",
    )
    undo: bool = Field(False, description="they take visits again, if they have not ended")


class ForkBody(CheckedModel):
    """POST /api/v1/runs/ID/fork"""

    step: int | None = Field(None, ge=0, description="continue after this step; null: the last one")
    state: dict[str, Any] = Field({}, description="new values for some keys")
    prompt: str | None = Field(None, description="another prompt")


class AnswerBody(CheckedModel):
    """POST /api/v1/questions/RUN/VISIT/answer"""

    text: str = Field(description="the answer")


class AnswerLinkBody(CheckedModel):
    """POST /api/v1/questions/RUN/VISIT/links"""

    recipient: str = Field(description="who gets the link, named as who has answered")


class LimitsBody(CheckedModel):
    """POST /api/v1/limits"""

    set: dict[str, int | float | str] = Field(
        {}, description="`NAME.SETTING` to value; `none` removes the limit"
    )
    unset: list[str] = Field([], description="`NAME.SETTING` to reset to the configured value")
    pause: str | None = Field(None, description="a provider or model to pause")
    reason: str | None = Field(None, description="why it is paused")
    resume: str | None = Field(None, description="what to resume; a used-up budget to renew")


class ViewBody(CheckedModel):
    """POST /api/v1/views"""

    name: str = Field(min_length=1, max_length=MOST_NAME, description="its name")
    query: str | None = Field(
        max_length=MOST_QUERY, description="the query of a list of runs; null: remove the view"
    )


class ScheduleBody(WantedSchedule):
    """POST /api/v1/schedules"""

    name: str = Field(description="1 to 64 letters, digits, `_`, `.` or `-`")


class HookBody(WantedHook):
    """POST /api/v1/hooks"""

    name: str = Field(description="1 to 64 letters, digits, `_`, `.` or `-`")

    @classmethod
    def of(cls, document: Mapping[str, Any], *, allow_private: bool = True) -> Self:
        """Validate what was given; the client checks the URL by what the engine allows."""
        return super().of(document, allow_private=allow_private)


class RedeliverBody(CheckedModel):
    """POST /api/v1/hooks/NAME/redeliver"""

    event_id: str = Field(max_length=100, description="of one of its last deliveries")


class TriggerBody(WantedTrigger):
    """POST /api/v1/triggers"""

    name: str = Field(description="1 to 64 letters, digits, `_`, `.` or `-`")


class RotateBody(BaseModel):
    """POST /api/v1/hooks/NAME/rotate and /api/v1/triggers/NAME/rotate"""

    model_config = ConfigDict(extra="forbid")

    keep: Duration = Field(
        int(SECRET_KEPT_S), description="how long the secret before it is good as well"
    )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Validate what was given; raises SubmissionRefused."""
        return filled_in(cls, document, "the body")


class PauseBody(CheckedModel):
    """POST /api/v1/schedules/NAME/pause"""

    reason: str = Field("", max_length=500, description="why, for those who look at it")


class BackfillBody(CheckedModel):
    """POST /api/v1/schedules/NAME/backfill"""

    first: str = Field(alias="from", description="the first instant, RFC 3339, or an age as 7d")
    last: str = Field(alias="to", description="the last one")
    overlap: OverlapName | None = Field(
        None, description="of these runs; null: allow-all, or buffer-all in a session"
    )


class BulkBody(CheckedModel):
    """POST /api/v1/bulk"""

    act: Literal["cancel", "retry"]
    ids: list[RunId] = Field([], max_length=MOST_SELECTED, description="these runs")
    filter: RunConditions | None = Field(None, description="instead of `ids`: all that match")
    expect: int | None = Field(
        None, ge=0, description="expected number of matches; refused if off by more than 5 %"
    )
    reason: str = Field("", max_length=500, description="why they are cancelled")
    agent: AgentChoice = "same"
    from_step: int | None = Field(
        None, ge=1, description="repeat each from this step; null: continue where it ended"
    )
