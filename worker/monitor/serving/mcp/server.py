"""The MCP server: which method does what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from sleipnir.scheduler.errors import SleipnirError
from sleipnir.worker.monitor.serving.engine import ServedEngine
from sleipnir.worker.monitor.serving.mcp.callers import ToolCaller
from sleipnir.worker.monitor.serving.mcp.calls import WaitingCall, answered_by_model
from sleipnir.worker.monitor.serving.mcp.runs import ServedRuns
from sleipnir.worker.monitor.serving.mcp.tasks import (
    EXTENSION,
    TaskMethods,
    TaskParams,
    TaskUpdateParams,
    declares_tasks,
)
from sleipnir.worker.monitor.serving.mcp.tools import RUN_RESULT, RUN_RESULT_TOOL, tools_of

CallContext = ServerRequestContext[Any]


class AgentServer:
    """Serves agents as tools.

    Args:
        caller_of: returns the user of a request.
    """

    def __init__(
        self, engine: ServedEngine, caller_of: Callable[[CallContext], ToolCaller]
    ) -> None:
        self._agents = engine.agents
        self._wait_s = engine.client.store.settings.mcp_serve_wait_s
        self._runs = ServedRuns(engine)
        self._tasks = TaskMethods(self._runs)
        self._caller_of = caller_of

    def server(self) -> Server[Any]:
        """Return the server for the library's transports."""
        made: Server[Any] = Server(
            "sleipnir",
            version=version("sleipnir"),
            # No tool has parameters that are also headers.
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list_tools,
        )
        made.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        made.extensions = {EXTENSION: {}}
        made.add_request_handler("tasks/get", TaskParams, self._get_task)
        made.add_request_handler("tasks/update", TaskUpdateParams, self._update_task)
        made.add_request_handler("tasks/cancel", TaskParams, self._cancel_task)
        return made

    async def _list_tools(
        self, _: CallContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tools = await asyncio.to_thread(tools_of, self._agents)
        return ListToolsResult(tools=[*tools, RUN_RESULT_TOOL])

    async def _call_tool(
        self, ctx: CallContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult | dict[str, Any]:
        try:
            if params.name == RUN_RESULT:
                return await self._run_result(ctx, params)
            return await self._call_agent(ctx, params)
        except SleipnirError as error:  # for the client's model, which may do better
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)

    async def _call_agent(
        self, ctx: CallContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult | dict[str, Any]:
        caller = self._caller_of(ctx)
        waiting = WaitingCall(self._runs, ctx, caller, self._wait_s)
        if params.request_state is not None:
            run = await asyncio.to_thread(self._runs.find, params.request_state)
            return await waiting.resume(run, params)
        run_id = await asyncio.to_thread(
            self._runs.start,
            params.name,
            params.arguments or {},
            caller,
            caller.key_of(ctx.request_id),
        )
        if run_id is None:
            raise MCPError(INVALID_PARAMS, f"there is no tool '{params.name[:200]}'")
        if declares_tasks(ctx.session):
            return await self._tasks.created(run_id)
        return await waiting.wait(self._runs.follower(run_id))

    async def _run_result(
        self, ctx: CallContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        caller, arguments = self._caller_of(ctx), params.arguments or {}
        run = await asyncio.to_thread(self._runs.find, _text(arguments, "run_id"))
        waiting = WaitingCall(self._runs, ctx, caller, self._wait_s)
        if params.request_state is not None:
            return await waiting.resume(run, params)
        follower = self._runs.follower(run.run_id)
        await follower.skip()
        if arguments.get("answer") is not None:
            refused = await answered_by_model(self._runs, run, _text(arguments, "answer"), caller)
            if refused is not None:
                return refused
        return await waiting.wait(follower)

    async def _get_task(self, ctx: CallContext, params: TaskParams) -> dict[str, Any]:
        return await self._tasks.get(ctx.session, params)

    async def _update_task(self, ctx: CallContext, params: TaskUpdateParams) -> dict[str, Any]:
        return await self._tasks.update(ctx.session, params, self._caller_of(ctx))

    async def _cancel_task(self, ctx: CallContext, params: TaskParams) -> dict[str, Any]:
        return await self._tasks.cancel(ctx.session, params, self._caller_of(ctx))


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise MCPError(INVALID_PARAMS, f"{name} must be a text")
    return value
