"""Compares requests for providers' batches with the visits that wait for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import redis

from sleipnir.scheduler.runs.snapshot import WaitRow
from sleipnir.scheduler.store.economy.keys import GROUPS

_FIELDS = ("run", "visit", "call", "collection", "group", "unwanted")


class AwaitedRequest(NamedTuple):
    """What a parked visit waits for."""

    run_id: str
    visit: str
    call: str
    request_id: str


def misplaced_requests(
    client: redis.Redis, partition: str, ids: Collection[str], awaited: Sequence[AwaitedRequest]
) -> list[tuple[str, str]]:
    """Return what is wrong with a partition's requests: the run, and a text.

    Every request belongs to a parked visit or is marked as unwanted, and is in the list that its
    record names; every visit that is parked so has its request.
    """
    redis_: Any = client  # redis-py types every answer as a union of its sync and async forms
    found: list[tuple[str, str]] = []
    names = sorted({*ids, *(each.request_id for each in awaited)})
    if not names:
        return found
    with redis_.pipeline(transaction=False) as pipe:
        pipe.hkeys(GROUPS)
        for request_id in names:
            pipe.hmget(f"{partition}:request:{request_id}", *_FIELDS)
        groups, *answers = pipe.execute()
    records = {
        request_id: dict(zip(_FIELDS, values, strict=True))
        for request_id, values in zip(names, answers, strict=True)
    }
    for each in awaited:
        record = records[each.request_id]
        if (record["run"], record["visit"], record["call"]) != each[:3] or record["unwanted"]:
            text = f"visit {each.visit} waits for request {each.request_id}, which is gone"
            found.append((each.run_id, text))
    with redis_.pipeline(transaction=False) as pipe:
        for request_id, record in records.items():
            pipe.hget(f"{partition}:waits:{record['run']} {record['visit']}", str(record["call"]))
            pipe.zscore(_list_of(partition, record), request_id)
        answers = pipe.execute()
    for number, (request_id, record) in enumerate(records.items()):
        row, listed = answers[2 * number : 2 * number + 2]
        if record["run"] is None:
            continue
        if listed is None or (record["group"] and record["group"] not in groups):
            text = f"request {request_id} is in no list of its collection or group"
            found.append((record["run"], text))
        wait = WaitRow.parse("", row or "")
        if not record["unwanted"] and not (wait.is_open and wait.detail == request_id):
            found.append((record["run"], f"no visit waits for request {request_id}"))
    return found


def _list_of(partition: str, record: dict[str, Any]) -> str:
    if not record["group"]:
        return f"{partition}:collected:{record['collection']}"
    kind = "unwanted" if record["unwanted"] else "sent"
    return f"{partition}:{kind}:{record['group']}"
