"""Removal of bundles that no run needs any more."""

from __future__ import annotations

import logging
from datetime import timedelta

from sleipnir.scheduler.store.run_store import RunStore

logger = logging.getLogger("sleipnir.scheduler")


def remove_unused_bundles(
    store: RunStore, unused_for: timedelta = timedelta(days=1), limit: int = 100
) -> int:
    """Remove up to `limit` bundles that no run uses; return how many.

    Args:
        unused_for: how long nobody must have submitted one. It protects a bundle between its upload
            and the submission that it is for.
    """
    removed = store.bundles.remove_unused(unused_for, limit)
    if removed:
        logger.info("removed %d unused bundles", removed)
    return removed
