"""What can go wrong with a knowledge base.

KnowledgeFailed
├── BuildFailed    it cannot be built; the text names each document with its reason
└── BeingBuilt     somebody else is building it
"""

from __future__ import annotations

from sleipnir.scheduler.errors import SleipnirError


class KnowledgeFailed(SleipnirError):
    """A knowledge base cannot be used; the text says why."""


class BuildFailed(KnowledgeFailed):
    """A knowledge base cannot be built."""


class BeingBuilt(KnowledgeFailed):
    """Another worker builds it; it may be there after `delay_s`."""

    delay_s = 2.0

    def __init__(self) -> None:
        super().__init__("its knowledge base is being built")
