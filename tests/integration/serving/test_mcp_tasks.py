"""The tasks extension of MCP: calls that return at once, whichever monitor is asked later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from tests.support.approvals import ASKS
from tests.support.driving import driven
from tests.support.engine import Engine
from tests.support.mcp_clients import Task, Tasks, ask_task, talk
from tests.support.site import ServedSite

T = TypeVar("T")
FAILS = """
settings: {tolerate_failures: false}
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""


def with_tasks(site: ServedSite, program: Callable[[Client], Awaitable[T]]) -> T:
    """Connect a client that knows tasks."""
    return talk(site.port, program, extensions=[Tasks()])


def created(site: ServedSite, agent: str, prompt: str = "Go.") -> str:
    """Call an agent, and return the id of the task."""

    async def program(client: Client) -> str:
        made = await client.session.call_tool(agent, {"prompt": prompt}, allow_claimed=True)
        return str(made.task_id)

    return with_tasks(site, program)


def ask(site: ServedSite, verb: str, task_id: str, **params: Any) -> Task:
    """Send a request about a task."""

    async def program(client: Client) -> Task:
        return await ask_task(client.session, verb, task_id, **params)

    return with_tasks(site, program)


def test_a_client_that_knows_tasks_gets_one_and_its_result(
    engine: Engine, site: ServedSite
) -> None:
    async def program(client: Client) -> CallToolResult:
        return await client.call_tool("echo", {"prompt": "Hello"})

    result = with_tasks(site, program)

    assert [part.text for part in result.content if part.type == "text"] == ["Hello"]


def test_a_task_outlives_the_monitor_that_made_it(engine: Engine, idle_site: ServedSite) -> None:
    engine.write("asks", ASKS)
    task_id = created(idle_site, "asks")
    assert engine.newest_runs() == [task_id]
    assert ask(idle_site, "get", task_id).status == "working"
    engine.drive()

    with ServedSite(engine.client) as second:
        asked = ask(second, "get", task_id)
        assert asked.status == "input_required"
        assert asked.input_requests is not None
        ((key, request),) = asked.input_requests.items()
        answers = {key: {"action": "accept", "content": {"answer": "yes"}}, "other": {}}
        ask(second, "update", task_id, inputResponses=answers)
    with ServedSite(engine.client) as third, driven(engine):

        async def program(client: Client) -> Task:
            while (task := await ask_task(client.session, "get", task_id)).status == "working":
                pass
            return task

        done = with_tasks(third, program)

    assert request["method"] == "elicitation/create"
    assert request["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["yes", "no"]
    assert done.status == "completed"
    assert done.result is not None
    assert done.result["content"] == [{"type": "text", "text": "published"}]


def test_a_task_can_be_cancelled(engine: Engine, idle_site: ServedSite) -> None:
    task_id = created(idle_site, "echo")

    ask(idle_site, "cancel", task_id)

    task = ask(idle_site, "get", task_id)
    assert task.status == "cancelled"
    assert (task.status_message or "").endswith("ended as cancelled: cancelled by its MCP client")
    assert engine.run(task_id).status == "cancelled"
    ask(idle_site, "cancel", task_id)


def test_a_task_fails_with_the_code_of_its_run(engine: Engine, idle_site: ServedSite) -> None:
    engine.write("broken", FAILS, {"s.sh": "exit 3"})
    task_id = created(idle_site, "broken")
    engine.drive()

    task = ask(idle_site, "get", task_id)

    assert task.status == "failed"
    assert task.error is not None
    assert task.error["data"] == {"code": engine.failure(task_id).code}
    assert task_id in (task.status_message or "")


def test_tasks_are_for_clients_that_declare_them(engine: Engine, idle_site: ServedSite) -> None:
    task_id = created(idle_site, "echo")

    async def program(client: Client) -> Task:
        return await ask_task(client.session, "get", task_id)

    with pytest.raises(MCPError) as undeclared:
        talk(idle_site.port, program)
    with pytest.raises(MCPError) as unknown:
        ask(idle_site, "get", "0" * 16)

    assert undeclared.value.code == -32021
    assert unknown.value.code == -32602


def test_an_answer_that_does_not_fit_is_refused(engine: Engine, idle_site: ServedSite) -> None:
    engine.write(
        "age",
        """
        start: ask
        nodes:
          ask:
            type: input
            question: How old?
            validation: len(input) < 4
            state_updates: {age: "{{input}}"}
            next: z
          z: {type: end, output: "{{age}}"}
        """,
    )
    task_id = created(idle_site, "age")
    engine.drive()
    (question,) = engine.inbox()
    answer = {"action": "accept", "content": {"answer": "very old"}}

    with pytest.raises(MCPError, match="does not satisfy"):
        ask(idle_site, "update", task_id, inputResponses={question.question_id: answer})

    assert ask(idle_site, "get", task_id).status == "input_required"
