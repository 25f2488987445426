"""What a process with a scheduler needs to deliver events."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.store.run_store import RunStore

# Most engines have no hooks.
with lazy_imports():
    from sleipnir.scheduler import client as clients
    from sleipnir.scheduler.client.hooks import notifications
    from sleipnir.scheduler.config import agents
    from sleipnir.scheduler.hooks import bodies, deliverer

if TYPE_CHECKING:
    from sleipnir.scheduler.hooks.deliverer import Deliverer


def event_delivery(store: RunStore) -> EventDelivery:
    """Return what delivers events, hooks of the setting `notify` among them.

    Raises:
        SettingInvalid: `notify` is not valid, or what sends notifications is not installed.
    """
    notifications.store_notifications(store)
    return EventDelivery(store)


class EventDelivery:
    """Delivers events, on threads that begin with the first one."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def offer(self, digits: str, hook: str, event_id: str) -> None:
        """Take a delivery that is due; does not wait for it."""
        self._deliverer.offer(digits, hook, event_id)

    @cached_property
    def _deliverer(self) -> Deliverer:
        client = clients.Client.over(self._store, agents.agent_search(self._store.settings))
        made = deliverer.Deliverer(self._store, bodies.Bodies(client).of)
        made.start()
        return made
