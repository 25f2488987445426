"""The connections to MCP servers of one worker process, shared by all its visits.

All private methods run on the event loop, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from sleipnir.graphs.mcp.config import McpServer
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S
from sleipnir.worker.mcp.failures import McpFailed, McpUnavailable
from sleipnir.worker.mcp.loop import LoopThread
from sleipnir.worker.mcp.target import Target
from sleipnir.worker.mcp.tool import McpTool, ToolList
from sleipnir.worker.visit.cancellation import Cancellation

with lazy_imports():
    from sleipnir.worker.mcp import session as mcp_session

if TYPE_CHECKING:
    from sleipnir.worker.mcp.session import McpSession

T = TypeVar("T")

# Limits idle programs: each run submitted without a directory has programs of its own.
MOST_IDLE = 16
# Pause before a server that failed to start is tried again, by whichever visit.
RETRY_PAUSE_S = 10.0
# The longest that closing takes: a program gets 2 s to exit by itself, and 2 s after SIGTERM.
_CLOSING_LIMIT_S = 6.0


@dataclass(frozen=True, slots=True)
class McpLimits:
    """Time limits of connections, in seconds."""

    start_s: float = 120.0
    idle_s: float = 300.0  # idle time after which a connection is closed
    tools_s: float = 600.0  # how long a list of tools is cached
    check_s: float = DEFAULT_LIMIT_S  # processor time to check one result

    @classmethod
    def of(cls, settings: Settings) -> McpLimits:
        """Return the limits that the settings give."""
        return cls(start_s=settings.mcp_timeout, check_s=settings.check_timeout_s)


_DEFAULT_LIMITS = McpLimits()


class McpPool:
    """Starts servers when they are first needed. Thread-safe; callers do not block each other."""

    def __init__(
        self,
        limits: McpLimits = _DEFAULT_LIMITS,
        environment_names: Sequence[str] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`environment_names`: additional variables of the worker's for the servers' programs."""
        self._limits = limits
        self._environment_names = tuple(environment_names)
        self._clock = clock
        self._thread = LoopThread("mcp")
        self._sessions: dict[str, McpSession] = {}
        self._failures: dict[str, tuple[float, str]] = {}  # when starting failed, and why
        self._tools: dict[str, tuple[float, ToolList]] = {}
        self._reaper: asyncio.Task[None] | None = None

    @property
    def check_limit_s(self) -> float:
        """Processor time that one check against a server's schema may take."""
        return self._limits.check_s

    # ---- called from any thread

    def tools(
        self,
        server: McpServer,
        workdir: Path,
        timeout_s: float,
        cancellation: Cancellation | None = None,
    ) -> tuple[McpTool, ...]:
        """Return the tools of a server with resolved secrets; the list may be up to 10 minutes old.

        Raises:
            McpUnavailable: it does not start, or does not list them.
        """
        (answer,) = self.tools_of([server], workdir, timeout_s, cancellation)
        if isinstance(answer, McpUnavailable):
            raise answer
        return answer.tools

    def tools_of(
        self,
        servers: Sequence[McpServer],
        workdir: Path,
        timeout_s: float,
        cancellation: Cancellation | None = None,
    ) -> list[ToolList | McpUnavailable]:
        """Return the tools of servers that are asked concurrently; failures as values."""
        targets = [Target.of(server, workdir, self._environment_names) for server in servers]
        try:
            return self._thread.run(self._all_listed(targets, timeout_s), cancellation)
        except CancelledError:
            return [McpUnavailable("the visit was cancelled") for _ in servers]

    def call(
        self,
        server: McpServer,
        workdir: Path,
        tool: str,
        arguments: Mapping[str, Any],
        timeout_s: float,
        cancellation: Cancellation | None = None,
    ) -> dict[str, Any]:
        """Call a tool: `{"content": […], "isError": bool, "structuredContent"?}`.

        Starting the server counts towards the limit. A call that may have taken effect is not
        repeated.

        Raises:
            McpFailed, McpUnavailable: there is no result.
        """
        target = Target.of(server, workdir, self._environment_names)
        calling = self._requested(target, lambda session: session.call(tool, dict(arguments)))
        try:
            return self._thread.run(_within(timeout_s, calling), cancellation)
        except TimeoutError:
            raise McpFailed(f"no answer after {timeout_s:g} s") from None
        except CancelledError:
            raise McpFailed("the visit was cancelled") from None

    def close(self) -> None:
        """Close all connections, ending the servers' programs; takes a few seconds at most."""
        if self._thread.started:
            self._thread.run(self._close())
            self._thread.stop()

    # ---- on the event loop

    async def _all_listed(
        self, targets: Sequence[Target], timeout_s: float
    ) -> list[ToolList | McpUnavailable]:
        return await asyncio.gather(*(self._listed(target, timeout_s) for target in targets))

    async def _listed(self, target: Target, timeout_s: float) -> ToolList | McpUnavailable:
        key = target.key
        listed_at, tools = self._tools.get(key, (float("-inf"), ToolList()))
        if self._clock() - listed_at < self._limits.tools_s:
            return tools

        async def listed_by(session: McpSession) -> ToolList:
            changes = session.tools_changed
            tools = await session.tools()
            if session.tools_changed == changes:  # otherwise it is out of date already
                self._tools[key] = (self._clock(), tools)
            return tools

        try:
            return await _within(timeout_s, self._requested(target, listed_by, repeatable=True))
        except TimeoutError:
            return McpUnavailable(f"no answer after {timeout_s:g} s")
        except (McpUnavailable, McpFailed) as error:
            return McpUnavailable(str(error))

    async def _requested(
        self,
        target: Target,
        request: Callable[[McpSession], Awaitable[T]],
        *,
        repeatable: bool = False,
    ) -> T:
        """Send a request to a live session; repeat it if the first session did nothing with it."""
        session = await self._session(target)
        try:
            return await request(session)
        except mcp_session.SessionLost as lost:
            if not (repeatable or lost.refused):
                raise McpFailed(lost.reason) from lost
        session = await self._session(target)
        try:
            return await request(session)
        except mcp_session.SessionLost as lost:
            raise McpFailed(lost.reason) from lost

    async def _session(self, target: Target) -> McpSession:
        key = target.key
        session = self._sessions.get(key)
        if session is None or session.over:
            session = self._sessions[key] = self._started(target, key)
        try:
            await session.opened()
        except McpUnavailable as error:
            self._failures[key] = (self._clock(), str(error))
            raise
        self._failures.pop(key, None)
        return session

    def _started(self, target: Target, key: str) -> McpSession:
        failed_at, reason = self._failures.get(key, (float("-inf"), ""))
        if self._clock() - failed_at < RETRY_PAUSE_S:
            raise McpUnavailable(reason)

        if self._reaper is None:
            self._reaper = asyncio.create_task(self._keep_reaping())
        self._tools.pop(key, None)  # the program may have changed meanwhile
        return mcp_session.McpSession(
            target,
            self._limits.start_s,
            self._limits.check_s,
            self._clock,
            lambda: self._tools.pop(key, None),
        )

    async def _keep_reaping(self) -> None:
        while True:
            await asyncio.sleep(self._limits.idle_s / 10)
            await self._reap()

    async def _reap(self) -> int:
        now = self._clock()
        self._sessions = {key: s for key, s in self._sessions.items() if not s.over}
        self._failures = _since(now - RETRY_PAUSE_S, self._failures)
        self._tools = _since(now - self._limits.tools_s, self._tools)
        idle = [pair for pair in self._sessions.items() if pair[1].requests == 0]
        idle.sort(key=lambda pair: pair[1].last_used, reverse=True)
        ending = [
            self._sessions.pop(key).end()
            for rank, (key, session) in enumerate(idle)
            if rank >= MOST_IDLE or session.last_used <= now - self._limits.idle_s
        ]
        if ending:
            await asyncio.wait(ending)
        return len(ending)

    async def _close(self) -> None:
        ending = [session.end() for session in self._sessions.values()]
        if self._reaper is not None:
            self._reaper.cancel()
            ending.append(self._reaper)
        self._sessions.clear()
        if ending:
            await asyncio.wait(ending, timeout=_CLOSING_LIMIT_S)


def _since(instant: float, entries: Mapping[str, tuple[float, T]]) -> dict[str, tuple[float, T]]:
    return {key: entry for key, entry in entries.items() if entry[0] > instant}


async def _within(timeout_s: float, working: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine does within a time, even if it ignores that it is cancelled.

    Libraries lose cancellations: with `asyncio.timeout` a visit would wait for them forever.

    Raises:
        TimeoutError: it takes longer.
    """
    task = asyncio.create_task(working)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        task.add_done_callback(lambda late: late.cancelled() or late.exception())
        raise TimeoutError
    return task.result()
