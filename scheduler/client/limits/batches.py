"""What people order about requests for batches of providers."""

from __future__ import annotations

from sleipnir.graphs.document.finding import printable
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.limits.messages import pause_of
from sleipnir.scheduler.store.economy.groups import Groups
from sleipnir.scheduler.store.run_store import RunStore


def send_now(store: RunStore, provider: str) -> None:
    """Have a provider's collections sent at once.

    Raises:
        ActionRefused: nothing waits for it, or it is paused.
    """
    groups = Groups(store)
    waiting = [name for name in groups.collections() if store.requests.collected(name).count]
    found = [name for name in waiting if name.partition(":")[0] == provider]
    if not found:
        known = ", ".join(sorted({name.partition(":")[0] for name in waiting})) or "no provider"
        raise ActionRefused(
            f"no request waits for a batch of '{printable(provider)}'; requests wait for: {known}"
        )
    rules = LimitCommands(store).rules()
    if all(pauses := [pause_of(name, rules) for name in found]):
        raise ActionRefused(str(pauses[0]))
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
