"""Schedules, hooks and triggers on asyncio: the methods of their parts of `Client`, awaited.

Each call runs in a thread: they are made by people and programs that set things up, now and then.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sleipnir.scheduler.client.hooks.hooks import HookClient
from sleipnir.scheduler.client.inbound.triggers import TriggerClient
from sleipnir.scheduler.client.schedules.schedules import ScheduleClient

P = ParamSpec("P")
Part = TypeVar("Part")
T = TypeVar("T")


class AsyncPart(Generic[Part]):
    """A part of an `AsyncClient`.

    Args:
        open_: returns the part of the client that it wraps.
    """

    def __init__(self, open_: Callable[[], Awaitable[Part]]) -> None:
        self._open = open_


def _awaited(
    method: Callable[Concatenate[Part, P], T],
) -> Callable[Concatenate[AsyncPart[Part], P], Coroutine[Any, Any, T]]:
    """Return the method as a coroutine that runs it in a thread."""

    async def call(self: AsyncPart[Part], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, await self._open(), *args, **kwargs)

    return functools.update_wrapper(call, method)


class AsyncSchedules(AsyncPart[ScheduleClient]):
    """`Client.schedules`; `AsyncClient.schedules` is one."""

    list = _awaited(ScheduleClient.list)
    get = _awaited(ScheduleClient.get)
    create = _awaited(ScheduleClient.create)
    edit = _awaited(ScheduleClient.edit)
    check = _awaited(ScheduleClient.check)
    pause = _awaited(ScheduleClient.pause)
    resume = _awaited(ScheduleClient.resume)
    delete = _awaited(ScheduleClient.delete)
    trigger = _awaited(ScheduleClient.trigger)
    backfill = _awaited(ScheduleClient.backfill)


class AsyncHooks(AsyncPart[HookClient]):
    """`Client.hooks`; `AsyncClient.hooks` is one."""

    list = _awaited(HookClient.list)
    get = _awaited(HookClient.get)
    create = _awaited(HookClient.create)
    edit = _awaited(HookClient.edit)
    rotate = _awaited(HookClient.rotate)
    test = _awaited(HookClient.test)
    attempts = _awaited(HookClient.attempts)
    wait_for = _awaited(HookClient.wait_for)
    redeliver = _awaited(HookClient.redeliver)
    delete = _awaited(HookClient.delete)
    figures = _awaited(HookClient.figures)
    open_deliveries = _awaited(HookClient.open_deliveries)


class AsyncTriggers(AsyncPart[TriggerClient]):
    """`Client.triggers`; `AsyncClient.triggers` is one."""

    list = _awaited(TriggerClient.list)
    get = _awaited(TriggerClient.get)
    create = _awaited(TriggerClient.create)
    edit = _awaited(TriggerClient.edit)
    rotate = _awaited(TriggerClient.rotate)
    delete = _awaited(TriggerClient.delete)
    is_genuine = _awaited(TriggerClient.is_genuine)
    count = _awaited(TriggerClient.count)
    figures = _awaited(TriggerClient.figures)
