"""Conditions on runs in queries and bodies, and the filter that they mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.time_bounds import parse_time_bound
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.agents import agents_named
from sleipnir.worker.monitor.checked import CheckedModel
from sleipnir.worker.monitor.problems import bad_request

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

_STATUSES = ", ".join(Status)
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class RunConditions(CheckedModel):
    """Conditions on runs, all of which must hold; an empty one always does."""

    status: list[str] = Field([], description=f"one of these: {_STATUSES}")
    agent: list[str] = Field(
        [], description="one of these; one that there is not stands for all that begin with it"
    )
    batch: str | None = Field(None, description="its name")
    label: list[str] = Field([], description="`NAME=VALUE`, all of these")
    since: str | None = Field(None, description="created after: `1h`, `7d` or an RFC 3339 time")
    until: str | None = Field(None, description="created before, in the same forms")
    children: bool = Field(False, description="include child runs")
    q: str | None = Field(
        None,
        max_length=200,
        description="text in the name of the agent, the batch or its item, in the error, in the "
        "start of the prompt or of the id",
    )
    cause: str | None = Field(
        None, max_length=12, description="failed alike: the `cause` of failures of a run or batch"
    )
    cost: float | None = Field(None, ge=0, description="cost more than this, USD")
    took: str | None = Field(None, description="took longer than this: `30s`, `5m`, `2h` or `1d`")

    order: Literal["newest", "oldest"] = Field("newest", description="`newest` or `oldest` first")

    @property
    def is_empty(self) -> bool:
        """Whether every run matches."""
        return not self.model_dump(exclude={"children", "order"}, exclude_defaults=True)

    def filter(self, client: Client) -> RunFilter:
        """Return the filter that the conditions mean now.

        Raises:
            Refused: one of them is invalid.
        """
        now_ms = client.queries.now_ms()
        labels = [text.partition("=") for text in self.label]
        if any(not separator for _, separator, _ in labels):
            raise bad_request("label takes NAME=VALUE")
        return RunFilter(
            statuses=frozenset(map(_status, self.status)),
            agents=agents_named(client, self.agent),
            batch=self.batch,
            labels=tuple((name, value) for name, _, value in labels),
            since_ms=instant_of("since", self.since, now_ms),
            until_ms=instant_of("until", self.until, now_ms),
            children=self.children,
            text=self.q,
            cause=self.cause,
            cost_above_usd=self.cost,
            took_above_s=None if self.took is None else _seconds("took", self.took),
            oldest_first=self.order == "oldest",
        )


def instant_of(name: str, text: str | None, now_ms: int) -> int | None:
    """Return a parameter's instant in ms; None if it is not given.

    Raises:
        Refused: it is not a time.
    """
    try:
        return None if text is None else parse_time_bound(text).at(now_ms)
    except ValueError as error:
        raise bad_request(f"{name}: {error}") from error


def number_of(name: str, text: str) -> float:
    """Return a parameter's number, 0 or more.

    Raises:
        Refused: it is not a number.
    """
    if not _NUMBER.fullmatch(text):
        raise bad_request(f"{name} must be a number, such as 0.5")
    return float(text)


def _seconds(name: str, text: str) -> float:
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise bad_request(f"{name} takes a number of seconds, or a time such as 30s, 5m, 2h or 1d")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError:
        raise bad_request(f"'{text}' is not a status; there are {_STATUSES}") from None
