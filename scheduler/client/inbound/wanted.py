"""A trigger as somebody asks for it: by flags or a request's body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from sleipnir.scheduler.client.forms import Texts, filled_in
from sleipnir.scheduler.runs.inbound.triggers import Trigger, Verify


class WantedTrigger(BaseModel):
    """What a trigger is made of; names are those of the flags of `trigger create`."""

    model_config = ConfigDict(extra="forbid")

    agent: str = Field(description="its name where the monitor runs")
    verify: Verify = Field(
        "standard", description="how requests prove who sends them; it cannot be changed"
    )
    prompt: str = Field("", description="of runs: a template, as are those of `set` and `key`")
    set: dict[str, str] = Field({}, description="keys of the state of runs")
    key: str | None = Field(None, description="requests with equal keys start one run")
    header: Texts = Field([], description="headers that templates see besides the usual ones")
    batch: str | None = Field(None, description="the batch that runs belong to")
    allow_anonymous: bool = Field(
        False, description="with `verify` none: whoever reaches the monitor may start runs"
    )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Validate what was given.

        Raises:
            SubmissionRefused: it is not a trigger; names the field.
        """
        return filled_in(cls, document, "the trigger")


def wanted_of(trigger: Trigger) -> dict[str, Any]:
    """Return what a trigger was made of, for changes to it."""
    return {
        "agent": trigger.agent,
        "verify": trigger.verify,
        "prompt": trigger.prompt,
        "set": dict(trigger.state),
        "key": trigger.key,
        "header": list(trigger.headers),
        "batch": trigger.batch,
        "allow_anonymous": trigger.verify == "none",
    }
