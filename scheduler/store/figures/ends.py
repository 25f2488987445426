"""How root runs ended, as counted by the hour (scheduler/store/lua/lib/indexes.lua)."""

from __future__ import annotations

from collections.abc import Mapping

# What runs are counted by; batch: "" if none. Of `took` and `cost`, those of a bucket are counted
# together: from 2^(n-1) to less than 2^n ms, or billionths of a dollar.
END_NAMES = ("agent", "batch", "status", "took", "cost")
UNPRICED = "-"  # the bucket of runs of unknown cost


def percentile_in(buckets: Mapping[int, int], share: float) -> float | None:
    """Return about the number below which this share of all lies; None without any.

    Args:
        buckets: how many there are in each; the numbers of one are taken to be spread evenly.
    """
    left = sum(buckets.values()) * share
    for bucket, count in sorted(buckets.items()):
        if count > 0 and count >= left:
            least = 0.0 if bucket == 0 else 2.0 ** (bucket - 1)
            most = 0.0 if bucket == 0 else 2.0**bucket
            return least + (most - least) * left / count
        left -= count
    return None
