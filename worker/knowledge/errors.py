"""What can go wrong with a knowledge base.

KnowledgeFailed
├── BuildFailed    it cannot be built; the text names each document with its reason
├── IndexDamaged   its index was damaged on this machine, and is removed there
├── StoredDamaged  its index is damaged where it is stored
├── NotBuilt       nobody has built it, or is at it: a run of its own may
└── NotYet         it can be had later: a limit or a failure passes
    └── BeingBuilt    another run is at it
"""

from __future__ import annotations

from sleipnir.graphs.knowledge.build_order import BuildOrder
from sleipnir.scheduler.errors import SleipnirError

_LOOKS_EVERY_S = 30.0


class KnowledgeFailed(SleipnirError):
    """A knowledge base cannot be used; the text says why."""


class BuildFailed(KnowledgeFailed):
    """A knowledge base cannot be built."""


class IndexDamaged(KnowledgeFailed):
    """An index was whole when it came to this machine; once more fetches it anew."""


class StoredDamaged(KnowledgeFailed):
    """An index did not arrive whole, twice."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the stored index is damaged: {why}; build it again with `sleipnir kb build`"
        )


class NotBuilt(KnowledgeFailed):
    """A knowledge base is to be built, by a run with the id that has the claim on it."""

    def __init__(self, order: BuildOrder, run_id: str) -> None:
        self.order = order
        self.run_id = run_id
        super().__init__("it is not built")


class NotYet(KnowledgeFailed):
    """A knowledge base may be there after `delay_s`.

    Args:
        for_person: whether a person ends the wait, and `delay_s` is only until the next look.
    """

    def __init__(self, delay_s: float, reason: str, *, for_person: bool = False) -> None:
        self.delay_s = delay_s
        self.for_person = for_person
        super().__init__(reason)


class BeingBuilt(NotYet):
    """Another run builds it, and wakes the visit when it is there, or will not be.

    A build that was killed wakes nobody: so the visit looks by itself now and then.
    """

    def __init__(self) -> None:
        super().__init__(_LOOKS_EVERY_S, "its knowledge base is being built")
