"""What waits for batches of providers, or is with them: for `limits`, `show`, `ps` and pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.limits.messages import pause_of
from sleipnir.scheduler.limits.rules import Rules
from sleipnir.scheduler.runs.model import Run, RunRow, Status
from sleipnir.scheduler.store.economy.groups import Group, Groups
from sleipnir.scheduler.store.economy.waiting import BatchWait, batch_waits
from sleipnir.scheduler.store.queries.filters import RunFilter

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.store.run_store import RunStore
    from sleipnir.scheduler.views.types import economy as types

# Runs of a batch that are looked at.
_MOST_RUNS = 200


def economy_document(store: RunStore, rules: Rules) -> types.EconomyDocument:
    """Return all collections that have requests, and all groups."""
    groups, now_ms = Groups(store), store.clock.now_ms()
    collected = [(name, store.requests.collected(name)) for name in groups.collections()]
    return {
        "collections": [
            {
                "name": name,
                "provider": name.partition(":")[0],
                "requests": found.count,
                "age_s": round((now_ms - found.oldest_ms) / 1000, 1),
                "trouble": pause_of(name, rules),
            }
            for name, found in collected
            if found.oldest_ms is not None
        ],
        "groups": [_group(group, now_ms, rules) for group in groups.all()],
    }


def economy_of_batch(client: Client, name: str) -> types.EconomyDocument:
    """Return collections and groups of the models that a batch's newest open runs wait for.

    They count the requests of all runs.
    """
    if Groups(client.store).is_idle():
        return {"collections": [], "groups": []}
    wanted = RunFilter(statuses=frozenset({Status.RUNNING}), batch=name)
    runs = client.queries.list_runs(wanted, _MOST_RUNS).entries
    models = {wait.collection for wait in batch_waits(client.store, runs).values()}
    found = economy_document(client.store, LimitCommands(client.store).rules())
    return {
        "collections": [each for each in found["collections"] if each["name"] in models],
        "groups": [each for each in found["groups"] if each["collection"] in models],
    }


def _group(group: Group, now_ms: int, rules: Rules) -> types.GroupDocument:
    paused = None if group.batch_id else pause_of(group.collection, rules)
    return {
        "id": group.group_id,
        "provider": group.provider,
        "collection": group.collection,
        "state": group.state,
        "batch_id": group.batch_id or None,
        "status": group.status or None,
        "requests": group.count,
        "completed": group.counts.get("completed", 0),
        "failed": group.counts.get("failed", 0),
        "age_s": round((now_ms - group.created_ms) / 1000, 1),
        "trouble": paused or group.trouble or None,
    }


def waits_for_batches(client: Client, runs: Sequence[Run | RunRow]) -> dict[str, str]:
    """Return by run id which batch of a provider an open run waits for."""
    found = batch_waits(client.store, runs)
    if not found:
        return {}
    groups = {group.group_id: group for group in Groups(client.store).all()}
    rules = LimitCommands(client.store).rules()
    return {
        run_id: _in_words(wait, groups.get(wait.group), rules) for run_id, wait in found.items()
    }


def _in_words(wait: BatchWait, group: Group | None, rules: Rules) -> str:
    provider = wait.collection.partition(":")[0]
    if group is None or not group.batch_id:
        paused = rules.paused_for(wait.collection)
        text = f"next provider batch {provider}" + (f" ({paused} is paused)" if paused else "")
    else:
        text = f"provider batch {provider} {group.batch_id}"
        if total := group.counts.get("total") or group.count:
            text += f" {group.counts.get('completed', 0):,} of {total:,}"
    if wait.live_ms is None:
        return text
    at = datetime.fromtimestamp(wait.live_ms / 1000, tz=UTC).astimezone()
    return f"{text}, live from {at:%Y-%m-%d %H:%M}"
