"""Keys of what is with providers, all in one slot; groups are of all partitions."""

from __future__ import annotations

PARTITION = "{economy}"
COLLECTIONS = f"{PARTITION}:collections"
GROUPS = f"{PARTITION}:groups"
WISHES = f"{PARTITION}:wishes"


def shares_key(group: str) -> str:
    """Return the key of what other requests get the reply to a request of a group."""
    return f"{PARTITION}:shares:{group}"


def lease_key(provider: str) -> str:
    """Return the key of the lease of whoever sends and fetches for a provider."""
    return f"{PARTITION}:lease:{provider}"
