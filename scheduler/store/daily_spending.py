"""What all runs spent by day, as counted by scheduler/store/lua/lib/usage.lua."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.spending import NOTHING_SPENT, Spent

DAY_MS = 86_400_000
# The sums of older days have expired.
KEPT_DAYS = 35


def spent_on(client: redis.Redis, days: Sequence[int]) -> dict[str, Spent]:
    """Return what was spent on some days together, by agent of the root run.

    Args:
        days: since 1970, in UTC, by the clock of Redis.
    """
    found: dict[str, Spent] = {}
    # redis-py types every answer as a union of its sync and async forms.
    redis_: Any = client
    with redis_.pipeline(transaction=False) as pipe:
        for day in days:
            for partition in ALL_PARTITIONS:
                pipe.hgetall(f"{partition}:spent:{day}")
        answers = pipe.execute()
    for fields in answers:
        for agent, text in fields.items():
            found[agent] = found.get(agent, NOTHING_SPENT) + Spent.from_text(text)
    return found
