"""The state of the engine in each minute of the last hour."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.figures.samples import MINUTE_MS, EngineSample, Samples

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import engine as types

T = TypeVar("T")

_MINUTES: Final = 60


def last_hour(client: Client, now_ms: int) -> types.LastHourDocument:
    """Return what a scheduler has sampled; None for minutes in which none was running."""
    found = _samples(client, now_ms)
    first = now_ms // MINUTE_MS - _MINUTES + 1

    def told(value: Callable[[EngineSample], T]) -> list[T | None]:
        return [None if each is None else value(each) for each in found]

    return {
        "minutes": [to_rfc3339((first + at) * MINUTE_MS) for at in range(_MINUTES)],
        "until": to_rfc3339((first + _MINUTES) * MINUTE_MS),
        "queued": told(lambda each: each.queued),
        "oldest_s": told(lambda each: each.oldest_ms / 1000),
        "busy": told(lambda each: each.busy),
        "slots": told(lambda each: each.slots),
        "memory_bytes": told(lambda each: each.memory_bytes),
    }


def limits_in_the_last_hour(client: Client) -> dict[str, list[int | None]]:
    """Return how much of each limit, as `NAME.SETTING`, was in use in each minute, likewise."""
    found = _samples(client, client.queries.now_ms())
    names = {name for sample in found if sample is not None for name in sample.limits}
    return {
        name: [None if each is None else each.limits.get(name) for each in found]
        for name in sorted(names)
    }


def _samples(client: Client, now_ms: int) -> list[EngineSample | None]:
    """Return the sample of each minute."""
    first = now_ms // MINUTE_MS - _MINUTES + 1
    found: list[EngineSample | None] = [None] * _MINUTES
    for sample in Samples(client.store.client).since(first * MINUTE_MS):
        at = sample.at_ms // MINUTE_MS - first
        if 0 <= at < _MINUTES:
            found[at] = sample
    return found
