"""What differs between the layouts of a single server and of a cluster, for a given client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from sleipnir.scheduler.store.cluster.layout import TAGS

_OF_ONE = ("",)


def is_grouped(client: redis.Redis) -> bool:
    """Return whether a client is one of a cluster."""
    return hasattr(client, "nodes")


def tags_of(client: redis.Redis) -> Sequence[str]:
    """Return the tags of all groups: what the names of their queues begin with."""
    return TAGS if is_grouped(client) else _OF_ONE


def nodes_of(client: Any) -> list[redis.Redis]:
    """Return a client of each primary."""
    return client.nodes.primaries() if is_grouped(client) else [client]


def missing_slots(client: Any) -> list[tuple[int, int]]:
    """Return the ranges of slots that no node of a cluster serves at present."""
    found: list[tuple[int, int]] = client.nodes.map.missing()
    return found
