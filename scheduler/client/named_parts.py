"""The part of the Python client for what stands beside runs, and has a name."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from sleipnir.lazy import lazy_imports

with lazy_imports():
    from sleipnir.scheduler.client.hooks import hooks as hooking
    from sleipnir.scheduler.client.inbound import triggers as triggering
    from sleipnir.scheduler.client.schedules import schedules as scheduling

if TYPE_CHECKING:
    from sleipnir.scheduler.client.client import Client
    from sleipnir.scheduler.client.hooks.hooks import HookClient
    from sleipnir.scheduler.client.inbound.triggers import TriggerClient
    from sleipnir.scheduler.client.schedules.schedules import ScheduleClient


class NamedParts:
    """Has a part for each kind."""

    @cached_property
    def schedules(self) -> ScheduleClient:
        """Schedules, which start runs at instants."""
        return scheduling.ScheduleClient(cast("Client", self))

    @cached_property
    def hooks(self) -> HookClient:
        """Hooks, which are told of events."""
        return hooking.HookClient(cast("Client", self))

    @cached_property
    def triggers(self) -> TriggerClient:
        """Triggers, by which other systems start runs."""
        return triggering.TriggerClient(cast("Client", self))
