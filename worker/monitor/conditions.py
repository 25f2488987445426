"""Which runs a list or an act is for: the names of queries and bodies, and the filter they mean."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.time_bounds import parse_time_bound
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.worker.monitor.problems import bad_request

_STATUSES = ", ".join(Status)


class RunConditions(BaseModel):
    """Conditions on runs, all of which must hold; an empty one always does."""

    model_config = ConfigDict(extra="forbid", strict=True)

    status: list[str] = Field([], description=f"one of these: {_STATUSES}")
    agent: list[str] = Field([], description="one of these")
    batch: str | None = Field(None, description="its name")
    label: list[str] = Field([], description="`NAME=VALUE`, all of these")
    since: str | None = Field(None, description="created since: `1h`, `7d` or an RFC 3339 time")
    until: str | None = Field(None, description="created before; as `since`")
    children: bool = Field(False, description="child runs too")

    @property
    def is_empty(self) -> bool:
        """Whether every run fits."""
        return not self.model_dump(exclude={"children"}, exclude_defaults=True)

    def filter(self, now_ms: int) -> RunFilter:
        """What they mean now.

        Raises:
            Refused: one of them means nothing.
        """
        labels = [text.partition("=") for text in self.label]
        if any(not separator for _, separator, _ in labels):
            raise bad_request("label takes NAME=VALUE")
        return RunFilter(
            statuses=frozenset(map(_status, self.status)),
            agents=tuple(self.agent),
            batch=self.batch,
            labels=tuple((name, value) for name, _, value in labels),
            since_ms=instant_of("since", self.since, now_ms),
            until_ms=instant_of("until", self.until, now_ms),
            children=self.children,
        )


def instant_of(name: str, text: str | None, now_ms: int) -> int | None:
    """The instant in ms that a parameter means.

    Raises:
        Refused: it means none.
    """
    try:
        return None if text is None else parse_time_bound(text).at(now_ms)
    except ValueError as error:
        raise bad_request(f"{name}: {error}") from error


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError:
        raise bad_request(f"'{text}' is not a status; there are {_STATUSES}") from None
