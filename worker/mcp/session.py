"""One live connection to an MCP server, owned by a task on the event loop.

The SDK wants a connection closed by the task that opened it, so one task does both: it opens the
connection, waits until it is told to stop or the server goes away, and closes it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import mcp_types
from mcp import Client, MCPError
from pydantic import ValidationError

from sleipnir.records import dataclass
from sleipnir.scheduler.schema_checks import pool
from sleipnir.scheduler.schema_checks.checking import SchemaInvalid, Unchecked
from sleipnir.worker.mcp.failures import McpFailed, McpUnavailable, one_line
from sleipnir.worker.mcp.listing import noting_odd_tools, read_leniently
from sleipnir.worker.mcp.target import Target
from sleipnir.worker.mcp.tool import McpTool, ToolList
from sleipnir.worker.mcp.transports import Traces, connection

T = TypeVar("T")

# A list that goes on after this many pages, or tools, is a bug of the server.
_MOST_PAGES = 100
MOST_TOOLS = 5_000

# If there are more errors, only their number is reported: listing them would take too long.
_MOST_MISTAKES = 1_000


@dataclass
class SessionLost(Exception):
    """The connection is gone; `refused` if the server certainly did nothing."""

    reason: str
    refused: bool = False


class McpSession:
    """A connection, from opening to closing; it is not reopened."""

    def __init__(
        self,
        target: Target,
        start_limit_s: float,
        check_limit_s: float,
        clock: Callable[[], float],
        on_tools_changed: Callable[[], object],
    ) -> None:
        """Start opening; must be called on the event loop."""
        self.target = target
        self.last_used = clock()
        self.requests = 0  # that are being waited for
        self.tools_changed = 0  # how often the server has reported it
        self._start_limit_s = start_limit_s
        self._check_limit_s = check_limit_s
        self._clock = clock
        self._forget_tools = on_tools_changed
        self._traces = Traces()
        self._client: Client | None = None
        self._opened = asyncio.Event()  # also set if opening failed
        self._ending = asyncio.Event()
        self._failure: str | None = None
        self._task = asyncio.create_task(self._live())

    @property
    def over(self) -> bool:
        """Whether it can no longer be used."""
        return self._ending.is_set()

    async def opened(self) -> None:
        """Wait until requests can be made.

        Raises:
            McpUnavailable: it could not be opened.
        """
        with self._in_use():  # so that it is not closed as idle
            await self._opened.wait()
        if self._client is None:
            raise McpUnavailable(self._failure or "it was stopped")

    def end(self) -> asyncio.Task[None]:
        """Close the connection and end its program; the returned task ends once that is done."""
        self._ending.set()
        if not self._opened.is_set():
            self._task.cancel()
        return self._task

    async def tools(self) -> ToolList:
        """List the server's tools, each name once.

        Raises:
            SessionLost, McpFailed: it did not list them.
        """
        tools: dict[str, McpTool] = {}
        warnings: dict[str, None] = {}  # in their order, each once
        cursor: str | None = None
        with noting_odd_tools(lambda odd: warnings.setdefault(one_line(odd))):
            for _ in range(_MOST_PAGES):
                known = len(tools) + len(warnings)
                page = await self._ask(partial(_page, cursor))
                for tool in page.tools:
                    offered = McpTool(tool.name, tool.description or "", tool.input_schema)
                    tools.setdefault(tool.name, offered)
                if len(tools) > MOST_TOOLS:
                    raise McpFailed(f"it lists more than {MOST_TOOLS:,} tools")
                cursor = page.next_cursor
                # Cursors are opaque: an equal one, or an empty one, may lead to other tools.
                if cursor is None or len(tools) + len(warnings) == known:
                    break
            else:
                warnings[f"its list of tools is cut after {_MOST_PAGES} pages"] = None
        return ToolList(tuple(tools.values()), tuple(warnings))

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; an error that the tool itself reports is a result.

        Raises:
            SessionLost, McpFailed: there is no result.
        """
        result = await self._ask(lambda client: client.call_tool(tool, arguments))
        said = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        value = {"content": said.get("content", []), "isError": result.is_error}
        if "structuredContent" in said:
            value["structuredContent"] = said["structuredContent"]
        return value

    async def _ask(self, request: Callable[[Client], Awaitable[T]]) -> T:
        client = self._client
        if client is None or self.over:
            raise SessionLost("the server disconnected", refused=True)
        with self._in_use():
            try:
                return await request(client)
            except MCPError as error:
                raise self._told(error) from error
            except McpFailed:
                raise
            except Exception as error:
                # Its answer violates its own declaration, or the protocol.
                raise McpFailed(_in_words(error)) from error

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
            self.last_used = self._clock()

    def _told(self, error: MCPError) -> Exception:
        if error.code == mcp_types.CONNECTION_CLOSED:
            self._ending.set()
            return SessionLost(self._with_traces("the server disconnected during the call"))
        if error.message == _FORGOTTEN:
            self._ending.set()
            return SessionLost("the server lost the session", refused=True)
        if error.message == _REFUSED and self._traces.http_error:
            return McpFailed(self._traces.http_error)
        if _UNREADABLE.match(error.message):  # the message is long and a library's
            return McpFailed("its answer does not fit the protocol")
        return McpFailed(error.message)

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._start_limit_s):
                    client = await stack.enter_async_context(self._new_client())
                # The SDK's own check could block every connection, and the whole worker.
                _replace_check(client, self._check_limit_s)
                read_leniently(client.session)
                self._client = client
                self._opened.set()
                following = asyncio.create_task(self._follow_changes(client))
                try:
                    await self._ending.wait()
                finally:
                    following.cancel()
                    await asyncio.wait([following])
        except TimeoutError:
            self._failure = self._with_traces(f"not ready after {self._start_limit_s:g} s")
        except Exception as error:  # raised by the SDK, or by anything it uses
            self._failure = self._with_traces(self._traces.http_error or _in_words(error))
        finally:
            self._ending.set()
            self._opened.set()

    def _new_client(self) -> Client:
        return Client(
            connection(self.target, self._traces, self._ending.set),
            message_handler=self._heard,
            cache=None,  # the pool has a cache that outlives the connection
            client_info=mcp_types.Implementation(name="sleipnir", version="1"),
        )

    async def _heard(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._tools_did_change()

    async def _follow_changes(self, client: Client) -> None:
        """Subscribe to changes of the tools; servers of the older protocol report them unasked."""
        # If subscribing fails, the cached list still expires.
        with suppress(Exception):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._tools_did_change()

    def _tools_did_change(self) -> None:
        self.tools_changed += 1
        self._forget_tools()

    def _with_traces(self, reason: str) -> str:
        return "; ".join([reason, *self._traces.last_lines()])


def _replace_check(client: Client, limit_s: float) -> None:
    """Have structured results checked against declared schemas where a check can be aborted."""
    session: Any = client.session

    async def check(tool: str, result: mcp_types.CallToolResult) -> None:
        declared = session._tool_output_schemas
        if tool not in declared:
            await session.list_tools()
        schema = declared.get(tool)
        if schema is None:
            return
        value = result.structured_content
        try:
            found = await asyncio.to_thread(pool.misfits, schema, value, limit_s)
        except pool.TookTooLong as error:
            raise McpFailed(f"the result of '{tool}' {error}") from error
        except (SchemaInvalid, Unchecked):
            return  # a schema that cannot be used declares nothing
        if found:
            path, message = found[0]
            raise McpFailed(f"the result of '{tool}' is not what it declares: {path}: {message}")

    session.validate_tool_result = check


async def _page(cursor: str | None, client: Client) -> mcp_types.ListToolsResult:
    return await client.list_tools(cursor=cursor)


# The SDK's messages for HTTP 404 within a session, and for other HTTP errors.
_FORGOTTEN = "Session terminated"
_REFUSED = "Server returned an error response"
# The SDK's message for an invalid message over HTTP.
_UNREADABLE = re.compile(r"Failed to parse [\w ]{1,40}: [0-9]+ validation error")


def _in_words(error: BaseException) -> str:
    """Describe the first cause in a group of errors, which the SDK's tasks end with."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no '{error.filename}'"
    if isinstance(error, ValidationError):
        if error.error_count() > _MOST_MISTAKES:
            return f"its answer does not fit the protocol in {error.error_count()} places"
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"its answer does not fit the protocol: {place}: {first['msg']}"
    return str(error) or type(error).__name__
