"""What people order about requests for batches of providers."""

from __future__ import annotations

from sleipnir.graphs.document.finding import printable
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.store.economy.groups import Groups
from sleipnir.scheduler.store.run_store import RunStore


def send_now(store: RunStore, provider: str) -> None:
    """Have a provider's collections sent at once.

    Raises:
        ActionRefused: nothing waits for it.
    """
    groups = Groups(store)
    names = {
        name.partition(":")[0]
        for name in groups.collections()
        if store.requests.collected(name).count
    }
    if provider not in names:
        known = ", ".join(sorted(names)) or "no provider"
        raise ActionRefused(
            f"no request waits for a batch of '{printable(provider)}'; requests wait for: {known}"
        )
    groups.wish(f"send {provider}")


def make_live(store: RunStore, text: str) -> str:
    """Have the calls of a group made live; return its id.

    Args:
        text: its id, the beginning of it, or the provider's id of the batch.

    Raises:
        ActionRefused: there is none, or are several.
    """
    groups = Groups(store)
    found = [
        group.group_id
        for group in groups.all()
        if text and (group.group_id.startswith(text) or group.batch_id == text)
    ]
    if len(found) != 1:
        raise ActionRefused(
            f"{'no group' if not found else 'more than one group'} of requests is called "
            f"'{printable(text)}'; `sleipnir limits` lists them"
        )
    groups.wish(f"live {found[0]}")
    return found[0]
