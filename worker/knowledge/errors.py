"""What can go wrong with a knowledge base.

KnowledgeFailed
├── BuildFailed    it cannot be built; the text names each document with its reason
└── NotYet         it can be had later: somebody else builds it, a limit or a failure passes
"""

from __future__ import annotations

from sleipnir.scheduler.errors import SleipnirError


class KnowledgeFailed(SleipnirError):
    """A knowledge base cannot be used; the text says why."""


class BuildFailed(KnowledgeFailed):
    """A knowledge base cannot be built."""


class NotYet(KnowledgeFailed):
    """A knowledge base may be there after `delay_s`.

    Args:
        for_person: whether a person ends the wait, and `delay_s` is only until the next look.
    """

    def __init__(self, delay_s: float, reason: str, *, for_person: bool = False) -> None:
        self.delay_s = delay_s
        self.for_person = for_person
        super().__init__(reason)
