"""What can go wrong with a knowledge base.

KnowledgeFailed
├── BuildFailed    a knowledge base cannot be built
├── StoredDamaged  an index is damaged where it is stored
├── IndexGone      the index of a knowledge base is no longer stored
├── NotBuilt       a knowledge base must be built
├── NotYet         a knowledge base may be available after `delay_s`
└── BeingBuilt     another run builds it and holds the claim on it
"""

from __future__ import annotations

from sleipnir.graphs.knowledge.build_order import BuildOrder
from sleipnir.scheduler.errors import SleipnirError


class KnowledgeFailed(SleipnirError):
    """A knowledge base is unusable; the text says why."""


class BuildFailed(KnowledgeFailed):
    """A knowledge base cannot be built."""


class StoredDamaged(KnowledgeFailed):
    """An index is damaged where it is stored."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the stored index is damaged: {why}; build it again with `sleipnir kb build`"
        )


class IndexGone(KnowledgeFailed):
    """The index of a knowledge base is no longer stored; or not in the present format."""

    def __init__(self, agent: str, node_id: str) -> None:
        super().__init__(
            "its index is no longer stored, or has an older format: "
            f"`sleipnir kb build {agent} {node_id}`"
        )


class NotBuilt(KnowledgeFailed):
    """A knowledge base must be built: by a run with the id that holds the claim on it."""

    def __init__(self, order: BuildOrder, run_id: str) -> None:
        self.order = order
        self.run_id = run_id
        super().__init__("it is not built")


class NotYet(KnowledgeFailed):
    """A knowledge base may be available after `delay_s`.

    Args:
        for_person: whether a person ends the wait, so that `delay_s` is only the polling interval.
    """

    def __init__(self, delay_s: float, reason: str, *, for_person: bool = False) -> None:
        self.delay_s = delay_s
        self.for_person = for_person
        super().__init__(reason)


class BeingBuilt(KnowledgeFailed):
    """Another run builds it and holds the claim on it."""

    def __init__(self, claim: str) -> None:
        self.claim = claim
        super().__init__("its knowledge base is being built")
