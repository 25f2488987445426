"""`sleipnir mcp serve`: an MCP client starts the command and uses agents as its tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ElicitResult

from tests.support.approvals import ASKS
from tests.support.command_line import Sleipnir
from tests.support.on_asyncio import run_in_thread
from tests.support.pages import blocks

ECHO = 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'


def text_of(result: CallToolResult) -> str:
    """What a tool has returned."""
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_client_that_starts_it_has_agents_as_tools(tmp_path: Path, mode: Any) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("echo", ECHO)
    sleipnir.write("asks", ASKS)
    sleipnir.write("other", ECHO)
    (configured,) = blocks("serving.md", "json")
    server = json.loads(configured)["mcpServers"]["agents"]
    assert server == {"command": "sleipnir", "args": ["mcp", "serve", "--agent", "translate"]}
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "sleipnir", *server["args"][:-1], "echo", "--agent", "as*"],
        env=sleipnir.environment,
        cwd=sleipnir.project,
    )
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": "yes"})

    async def program() -> tuple[list[str], str, str]:
        async with Client(command, mode=mode, elicitation_callback=answer) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            said = await client.call_tool("echo", {"prompt": "Hello"})
            return tools, text_of(said), text_of(await client.call_tool("asks", {}))

    tools, said, published = run_in_thread(program())

    assert tools == ["asks", "echo", "run_result"]
    assert (said, published) == ("Hello", "published")
    assert [message.partition("\n")[0] for message in asked] == ["Publish?"]


def test_an_agent_that_does_not_exist_is_told_at_once(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("mcp", "serve", "--agent", "nobody")

    assert done.returncode == 2
    assert "no agent is named 'nobody'" in done.stderr
    assert done.stdout == ""
