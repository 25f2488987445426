"""The published client of MCP, as programs use it against the monitor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

import httpx2
from mcp import Client, ClientSession
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, EmptyResult, Result
from mcp_types import Request as MCPRequest

from tests.support.on_asyncio import run_in_thread
from tests.support.site import KEY

T = TypeVar("T")


def talk(port: int, program: Callable[[Client], Awaitable[T]], key: str = KEY, **options: Any) -> T:
    """Connect a client, and return what a program comes to with it."""

    async def connected() -> T:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
            async with Client(transport, **options) as client:
                try:
                    return await program(client)
                except MCPError as error:  # the client would make a group of it
                    refusal = error
        raise refusal

    return run_in_thread(connected())


class CreatedTask(Result):
    """What a call returns in place of its result."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class Task(Result):
    """What is told of a task."""

    status: str
    status_message: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class TaskRequest(MCPRequest[dict[str, Any], str]):
    """A request about one task."""

    name_param = "taskId"
    method: str
    params: dict[str, Any]


class Tasks(ClientExtension):
    """The client's side of the tasks extension, which the library leaves to programs."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve)]

    async def _resolve(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        while (task := await ask_task(context.session, "get", created.task_id)).status == "working":
            pass
        return CallToolResult.model_validate(task.result)


async def ask_task(session: ClientSession, verb: str, task_id: str, **params: Any) -> Task:
    """Send a request about a task."""
    request = TaskRequest(method=f"tasks/{verb}", params={"taskId": task_id, **params})
    if verb == "get":
        return await session.send_request(request, Task)
    await session.send_request(request, EmptyResult)
    return Task(status="")
