"""Agents served by real monitors, one of which is killed half-way."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client
from openai import OpenAI

from tests.support.approvals import ASKS
from tests.support.command_line import Sleipnir
from tests.support.mcp_clients import Task, Tasks, ask_task, talk

ECHO = 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'


@pytest.fixture
def sleipnir(tmp_path: Path) -> Iterator[Sleipnir]:
    """An engine that is up, whose monitors serve agents."""
    served = {"agents": ["echo", "asks"], "openai": True, "mcp": True}
    command = Sleipnir(tmp_path, SLEIPNIR_SERVE=json.dumps(served))
    command.write("echo", ECHO)
    command.write("asks", ASKS)
    with command.up():
        yield command


def monitor(sleipnir: Sleipnir) -> tuple[subprocess.Popen[str], int]:
    """Start a monitor; returns its port too."""
    process = sleipnir.start("monitor", "--port", "0")
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stderr.readline())
    assert found is not None
    return process, int(found[1])


def until(port: int, key: str, task_id: str, status: str) -> Task:
    """Ask for a task until it has a status."""

    async def program(client: Client) -> Task:
        while (task := await ask_task(client.session, "get", task_id)).status != status:
            assert task.status == "working"
        return task

    return talk(port, program, key, extensions=[Tasks()])


def test_a_task_outlives_a_monitor_that_is_killed(sleipnir: Sleipnir) -> None:
    first, port = monitor(sleipnir)
    key = Path(sleipnir.environment["SLEIPNIR_DATA_DIR"], "monitor.key").read_text().strip()

    async def create(client: Client) -> str:
        made = await client.session.call_tool("asks", {}, allow_claimed=True)
        return str(made.task_id)

    task_id = talk(port, create, key, extensions=[Tasks()])
    first.kill()
    first.communicate()
    second, port = monitor(sleipnir)
    asked = until(port, key, task_id, "input_required")
    ((question, _),) = (asked.input_requests or {}).items()
    answer = {question: {"action": "accept", "content": {"answer": "yes"}}}

    async def give(client: Client) -> None:
        await ask_task(client.session, "update", task_id, inputResponses=answer)

    talk(port, give, key, extensions=[Tasks()])
    done = until(port, key, task_id, "completed")
    with OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key) as client:
        pieces = client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "Hello"}], stream=True
        )
        said = "".join(chunk.choices[0].delta.content or "" for chunk in pieces)
    second.terminate()
    second.communicate()

    assert done.result is not None
    assert done.result["content"] == [{"type": "text", "text": "published"}]
    assert said == "Hello"
