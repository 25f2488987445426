"""What acts of the API take: the JSON object of each, checked."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sleipnir.worker.monitor.handlers.base import bad_request

T = TypeVar("T", bound="ActBody")


class ActBody(BaseModel):
    """A JSON object; what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def of(cls: type[T], document: dict[str, Any]) -> T:
        """What a request was sent with.

        Raises:
            Refused: it is not of this form.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the body"
            raise bad_request(f"{place}: {first['msg']}") from error


class SubmitBody(ActBody):
    """POST /api/v1/runs"""

    agent: str = Field(description="its name")
    prompt: str = Field("", description="`initial_prompt`")
    state: dict[str, Any] = Field({}, description="keys over `initial_state`")
    vars: dict[str, str] = Field({}, description="variables that the agent declares")
    answers: dict[str, list[str]] = Field({}, description="in advance, by node")
    labels: dict[str, str] = Field({}, description="to find the run by")
    workdir: str | None = Field(None, description="of scripts and tools, on the monitor's machine")
    key: str | None = Field(
        None, min_length=1, max_length=200, description="the same one gives the same run"
    )


class LimitsBody(ActBody):
    """POST /api/v1/limits"""

    set: dict[str, int | float | str] = Field(
        {}, description="`NAME.SETTING` to value; `none` takes a limit away"
    )
    unset: list[str] = Field([], description="`NAME.SETTING` to go back to the configuration")
    pause: str | None = Field(None, description="a provider or model that no call may use")
    reason: str | None = Field(None, description="why it is paused")
    resume: str | None = Field(None, description="what is paused; a budget that is used up")
