"""The groups of one provider, for whoever holds its lease."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence

from sleipnir.scheduler.store.economy.groups import Group, Groups
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.llm.client import ModelCallFailed

logger = logging.getLogger("sleipnir.worker")

FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 300.0
_MOST_FAILURES = 16  # counted


class HeldGroups:
    """What is known of all groups, and how those of the provider change.

    Changes raise TransitionRefused if the lease is lost.
    """

    def __init__(self, store: RunStore, groups: Groups, provider: str, token: str) -> None:
        self._clock = store.clock
        self._groups = groups
        self._token = token
        self.provider = provider
        self.all = {group.group_id: group for group in groups.all()}

    def now_ms(self) -> int:
        """Return the current time in ms."""
        return self._clock.now_ms()

    def write(self, group: Group, **changes: object) -> Group:
        """Store a group with these changes, and return it."""
        written = self._groups.write(group, self._token, **changes)
        self.all[group.group_id] = written
        return written

    def share(self, group: Group, shares: Mapping[str, Sequence[str]]) -> None:
        """Note which requests get the reply to another one."""
        self._groups.share(group.group_id, shares)

    def shares(self, group: Group) -> Mapping[str, Sequence[str]]:
        """Return these, by the request that has a line."""
        return self._groups.shares(group.group_id)

    def forget(self, group: Group) -> None:
        """Forget a group that is done."""
        self._groups.share(group.group_id, {})
        self._groups.forget(group, self._token)
        del self.all[group.group_id]

    def troubled(self, group: Group, failure: ModelCallFailed) -> None:
        """Have a group tried again after a pause, which grows."""
        pause_s = min(_LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**group.failures)
        pause_s = max(pause_s, failure.retry_after_s or 0.0)
        logger.warning("provider batch of %s: %s", group.collection, failure)
        self.write(
            group,
            trouble=failure.message,
            failures=min(group.failures + 1, _MOST_FAILURES),
            due_ms=self.now_ms() + jittered_ms(pause_s),
        )


def jittered_ms(seconds: float) -> int:
    """Return a time in ms, a tenth longer or shorter at random."""
    return int(seconds * random.uniform(900, 1100))
