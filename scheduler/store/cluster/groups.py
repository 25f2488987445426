"""What differs between the layouts of a single server and of a cluster, for a given client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from zlib import crc32

import redis

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.cluster.layout import TAGS, tag_of

_OF_ONE = ("",)


def is_grouped(client: redis.Redis) -> bool:
    """Return whether a client is one of a cluster."""
    return hasattr(client, "nodes")


def tags_of(client: redis.Redis) -> Sequence[str]:
    """Return the tags of all groups: what the names of their queues begin with."""
    return TAGS if is_grouped(client) else _OF_ONE


def tag_for(client: redis.Redis, name: str) -> str:
    """Return the tag of the group in which something outside of partitions is, by its name."""
    tags = tags_of(client)
    return tags[crc32(name.encode()) % len(tags)]


def groups_of(client: redis.Redis) -> Mapping[str, Sequence[str]]:
    """Return the partitions of each group, by its tag."""
    return _partitions_by_tag() if is_grouped(client) else {"": ALL_PARTITIONS}


@cache
def _partitions_by_tag() -> Mapping[str, Sequence[str]]:
    return {tag: [each for each in ALL_PARTITIONS if tag_of(each) == tag] for tag in TAGS}


def nodes_of(client: Any) -> list[redis.Redis]:
    """Return a client of each primary."""
    return client.nodes.primaries() if is_grouped(client) else [client]


def missing_slots(client: Any, *, asks: bool) -> list[tuple[int, int]]:
    """Return the ranges of slots that no node of a cluster serves at present.

    Args:
        asks: whether to ask each node if it answers.
    """
    known = client.nodes
    silent = [each for each in known.map.primaries() if asks and _is_silent(known.at(each))]
    found: list[tuple[int, int]] = known.map.missing(silent)
    return found


def _is_silent(node: redis.Redis) -> bool:
    try:
        node.ping()
    except (redis.ConnectionError, redis.TimeoutError):
        return True
    return False
