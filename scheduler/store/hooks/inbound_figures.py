"""What has become of requests from outside so far: to triggers, and by answer links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.inbound.answer_links import LINK_OUTCOMES, LinkOutcome
from sleipnir.scheduler.runs.inbound.triggers import OUTCOMES, Outcome, Trigger
from sleipnir.scheduler.store.keys import INBOUND_FIGURES

if TYPE_CHECKING:
    import redis

# No trigger has such a name with an instant behind it.
_OF_ALL = "trigger"
_OF_LINKS = "link"


@dataclass(frozen=True, slots=True)
class InboundCounts:
    """Counts by field, as they are stored."""

    fields: Mapping[str, int]

    def of(self, trigger: Trigger) -> dict[str, int]:
        """Return how many requests to a trigger had each outcome."""
        return {each: self.fields.get(_field(trigger, each), 0) for each in OUTCOMES}

    @property
    def of_all(self) -> dict[str, int]:
        """How many had each outcome, whichever triggers there are now."""
        return {each: self.fields.get(f"{_OF_ALL} {each}", 0) for each in OUTCOMES}

    @property
    def of_links(self) -> dict[str, int]:
        """How many links had each outcome."""
        return {each: self.fields.get(f"{_OF_LINKS} {each}", 0) for each in LINK_OUTCOMES}


class InboundFigures:
    """Counts requests, in all monitors together."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def count_request(self, trigger: Trigger, outcome: Outcome) -> None:
        """Count what has become of a request to a trigger."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hincrby(INBOUND_FIGURES, f"{_OF_ALL} {outcome}", 1)
            pipe.hincrby(INBOUND_FIGURES, _field(trigger, outcome), 1)
            pipe.execute()

    def count_link(self, outcome: LinkOutcome) -> None:
        """Count what has become of a request with an answer link."""
        self._redis.hincrby(INBOUND_FIGURES, f"{_OF_LINKS} {outcome}", 1)

    def forget(self, trigger: Trigger) -> None:
        """Remove the counts of a trigger; those of all stay."""
        self._redis.hdel(INBOUND_FIGURES, *(_field(trigger, each) for each in OUTCOMES))

    def read(self) -> InboundCounts:
        """Return all counts."""
        stored = self._redis.hgetall(INBOUND_FIGURES)
        return InboundCounts({name: int(count) for name, count in stored.items()})


def _field(trigger: Trigger, outcome: str) -> str:
    # One that is made anew under its name begins at 0, whatever is counted of the earlier one.
    return f"{trigger.name} {trigger.made_ms} {outcome}"
