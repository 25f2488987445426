"""The run store: one typed method per transition. Nothing else changes runs in Redis.

Lists, histories and narrations are read through `queries`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import redis

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.archive.whole_runs import WholeRuns
from sleipnir.scheduler.store.batches import Batches
from sleipnir.scheduler.store.bundles import Bundles
from sleipnir.scheduler.store.conversation.children import Children
from sleipnir.scheduler.store.conversation.escalations import Escalations
from sleipnir.scheduler.store.conversation.messages import Messages
from sleipnir.scheduler.store.conversation.teams import Teams
from sleipnir.scheduler.store.dispatch import Dispatcher
from sleipnir.scheduler.store.economy.requests import Requests
from sleipnir.scheduler.store.hooks.batch_ends import BatchEnds
from sleipnir.scheduler.store.hooks.deliveries import HookDeliveries
from sleipnir.scheduler.store.hooks.hooks import Hooks
from sleipnir.scheduler.store.parking import Parking
from sleipnir.scheduler.store.partitions import Partitions
from sleipnir.scheduler.store.runs import Runs
from sleipnir.scheduler.store.schedules.schedules import Schedules
from sleipnir.scheduler.store.transitions import Transitions
from sleipnir.scheduler.store.visits import Visits

# Only what shows figures reads sums.
with lazy_imports():
    from sleipnir.scheduler.store.figures import past

# Most engines have no archive.
with lazy_imports():
    from sleipnir.scheduler.store.archive import archive as archives
    from sleipnir.scheduler.store.archive import archived_runs, cache, objects, sealing


class RunStore(Transitions):
    """All transitions of runs, grouped by what they change."""

    # Failpoints can be set at the methods of these classes.
    PARTS = (
        *(Runs, Visits, Parking, Children, Messages, Escalations, Partitions, Bundles, Requests),
        *(WholeRuns, HookDeliveries, BatchEnds),
    )

    def __init__(
        self,
        client: redis.Redis,
        settings: Settings,
        dispatcher: Dispatcher,
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(client, settings, dispatcher, clock)
        self.runs = Runs(self)
        self.visits = Visits(self)
        self.parking = Parking(self)
        self.messages = Messages(self)
        self.teams = Teams(self)
        self.escalations = Escalations(self)
        self.partitions = Partitions(self)
        self.bundles = Bundles(self)
        self.whole_runs = WholeRuns(self)
        self.batches = Batches(self)
        self.batch_ends = BatchEnds(self)
        self.children = Children(self)
        self.requests = Requests(self)
        self.schedules = Schedules(self)
        self.hooks = Hooks(self)
        self.deliveries = HookDeliveries(self)

    @cached_property
    def past_sums(self) -> past.PastSums:
        """Sums of hours and days that this process has read."""
        return past.PastSums()

    @cached_property
    def archive(self) -> archives.Archive | None:
        """Where runs go that ended some time ago; None: they stay in Redis."""
        url, key = self.settings.archive, self.settings.archive_key_file
        if url is None:
            return None
        return archives.Archive(objects.Objects(url), sealing.ArchiveKey(key))

    @cached_property
    def archived(self) -> archived_runs.ArchivedRuns | None:
        """What is there, read again."""
        if self.archive is None:
            return None
        kept = cache.ObjectCache(data_dir() / "archive-cache")
        return archived_runs.ArchivedRuns(self.client, self.archive, kept)
