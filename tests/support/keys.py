"""The content of Redis: everything, for comparison, and keys that would stay forever."""

from __future__ import annotations

from typing import Any

import redis

from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.store.cluster.layout import untagged

INDEXES = (
    *("runs", "childruns", "ids", "agent", "batch", "label"),
    *("open", "waiting", "failed", "cancelled", "timed_out"),
    *("batches", "batchtally", "tally"),
)
# Without expiry on purpose: indexes shrink with the runs, and bundles are swept with what they
# name. Not the counts of `repairs`: where a test breaks nothing, nothing may be repaired.
PERMANENT_OF_A_PARTITION = (
    *("timers", "inbox", "bundles", "sessions", "owner", "swept", "scheduled"),
    *("archivable", "hooks", "deliveries"),
    *INDEXES,
)
# The data format; and the broker's: its queues, and the bindings of its exchanges.
PERMANENT = (
    "sleipnir",
    "sleipnir:turns",
    "sleipnir:bundles",
    "sleipnir:index-of",
    "sleipnir:archive",
    "sleipnir:audit",
    "sleipnir:samples",
    "sleipnir:hooks",
    "sleipnir:inbound:figures",
    "sleipnir:triggers",
    "sleipnir:hooks:figures",
    "sleipnir:format",
    "sleipnir:layout",
    "{limits}:settings",
    "{limits}:ahead",
)
PERMANENT_PREFIXES = (
    "sleipnir:bundle:",
    "sleipnir\x06\x16",
    "sleipnir@",
    "sleipnir.",
    "_kombu.binding",
    "_kombu.{_kombu}.binding",
    "sleipnir:views:",
)


def dump(client: redis.Redis) -> dict[str, Any]:
    """Return every key with its content and whether it expires; equal if nothing has changed."""
    redis_: Any = client  # redis-py types every reply as a union of its sync and async forms
    # Bundles are binary and never change; a worker's heartbeat changes nothing in runs.
    left_out = ("sleipnir:bundle:", "sleipnir:fleet", "sleipnir:samples")
    keys = [key for key in sorted(redis_.scan_iter()) if not untagged(key).startswith(left_out)]
    with redis_.pipeline() as pipe:
        for key in keys:
            pipe.type(key)
        types = pipe.execute()
        for key, kind in zip(keys, types, strict=True):
            _read(pipe, key, kind)
            pipe.ttl(key)
        answers = pipe.execute()
    contents, ttls = answers[::2], answers[1::2]
    return {
        key: (content, ttl >= 0) for key, content, ttl in zip(keys, contents, ttls, strict=True)
    }


def _read(redis_: Any, key: str, kind: str) -> None:
    match kind:
        case "string":
            redis_.get(key)
        case "hash":
            redis_.hgetall(key)
        case "list":
            redis_.lrange(key, 0, -1)
        case "set":
            redis_.smembers(key)
        case "zset":
            redis_.zrange(key, 0, -1, withscores=True)
        case "stream":
            redis_.xrange(key)
        case other:
            raise AssertionError(f"{key} is a {other}")


def leaked_keys(client: redis.Redis) -> list[str]:
    """Return keys that nothing would ever remove: no expiry, not permanent, not of an open run."""
    redis_: Any = client
    keys = [key for key in sorted(redis_.scan_iter(count=1_000)) if not _is_permanent(key)]
    with redis_.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.ttl(key)
        ttls = pipe.execute()
    return [
        key
        for key, ttl in zip(keys, ttls, strict=True)
        if ttl == -1 and not _goes_with_its_run(key, redis_)
    ]


def _is_permanent(key: str) -> bool:
    if untagged(key) in PERMANENT or untagged(key).startswith(PERMANENT_PREFIXES):
        return True
    return key.split(":")[1] in PERMANENT_OF_A_PARTITION


def _goes_with_its_run(key: str, redis_: Any) -> bool:
    partition, kind, *run = key.split(":")
    run_id = run[0].split(" ")[0] if run else ""
    status = redis_.hget(f"{partition}:run:{run_id}", "status")
    if status in FINAL:  # the sweep removes the record and subtracts it from the counts
        timer = f"expiry {run_id}"
        return kind == "run" and redis_.zscore(f"{partition}:timers", timer) is not None
    return status is not None
