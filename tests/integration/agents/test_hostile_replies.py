"""Models that ask the engine for too much: a result says so, and the run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sleipnir.scheduler.runs.conversation.messages import LARGEST_BYTES, MOST_UNREAD
from sleipnir.scheduler.runs.conversation.tasks import MOST_TASKS, Task, TaskQueue
from sleipnir.scheduler.runs.conversation.todo import MOST_TODOS, Todo, TodoList
from sleipnir.scheduler.runs.submit import Request as RunRequest
from sleipnir.scheduler.store.keys import run_key
from tests.support.conversations import converses, results
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, Request, calls, fails, says
from tests.support.supervising import agents_in, collects_all, spawns

CONFIG = """
model: openai:m
auto_continue: true
max_auto_continues: 0
can_spawn_agents: true
max_concurrent_agents: 3
"""
DONE = says("Done.")


def wrote(name: str, arguments: str, call_id: str | None = None) -> dict[str, Any]:
    """A call with arguments as the model wrote them."""
    return {"name": name, "arguments": arguments, "id": call_id}


def told(server: ModelServer) -> list[Any]:
    return [json.loads(result) for result in results(server, "Lead.")]


def lead(engine: Engine, **request: Any) -> str:
    engine.write_normal("worker", "instructions: You work.\n")
    return engine.submit_normal(CONFIG, prompt="Lead.", **request)


@pytest.mark.parametrize("function", ["todo__add", "gone", "user__ask", "agent__spawn"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((f"{'[' * depth}{']' * depth}", "nested more than 200 levels") for depth in (950, 10**5)),
        ("1e400", "1e400 is not a valid JSON number"),
        ("NaN", "NaN is not a valid JSON number"),
    ],
    ids=["deep", "deeper", "1e400", "NaN"],
)
def test_arguments_that_json_cannot_hold_are_refused(
    engine: Engine, server: ModelServer, function: str, value: str, said: str
) -> None:
    again = Reply(calls=[wrote(function, f'{{"task": {value}}}')])
    converses(server, "Lead.", *[again] * 4, DONE)

    run_id = lead(engine)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert len(told(server)) == 4
    assert all(said in result["tool_call_error"] for result in told(server))


def test_names_and_ids_may_be_anything(engine: Engine, server: ModelServer) -> None:
    odd = "\x1b[31mtodo\x00\n__add" + "y" * 5_000
    add = [wrote("todo__add", json.dumps({"task": task})) for task in "ab"]
    reply = [
        *({**each, "id": ""} for each in add),
        wrote("todo__add", '{"task": "c"}', "call_1"),
        wrote(odd, "{}", "\x00\x1b[2J"),
        wrote("", "{}"),
        wrote("agent__spawn", '{"agent": "\\u001b[2J", "prompt": "\\ud800"}'),
    ]
    converses(server, "Lead.", Reply(calls=reply), calls(("todo__list", {})), DONE)

    run_id = lead(engine)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    listed = told(server)[-1]["todos"]
    assert sorted(each["desc"] for each in listed) == ["a", "b", "c"]
    *_, odd_name, no_name, no_agent, _ = told(server)
    assert "use only the tools that are listed" in odd_name["tool_call_error"]
    assert "there is no tool ''" in no_name["tool_call_error"]
    assert "there is no agent '\x1b[2J'" in no_agent["tool_call_error"]
    assert_consistent(engine.redis, runs=1)


def test_of_thousands_of_spawns_as_many_start_as_may_be_alive(
    engine: Engine, server: ModelServer
) -> None:
    converses(server, "Job", says("Did it."))
    converses(server, "Lead.", spawns(*(f"Job {n}." for n in range(2_000))), DONE, DONE, DONE, DONE)

    run_id = lead(engine)
    engine.work_once()

    assert len(engine.queries.children(run_id)) == 3
    engine.drive()
    assert engine.run(run_id).status == "succeeded"
    failures = [result.get("tool_call_error", "") for result in told(server)]
    assert sum("calls_limit" in each for each in failures) == 2_000 - 128
    assert_consistent(engine.redis, runs=4)


def full_todos() -> Any:
    return TodoList(todos=tuple(Todo(n, "x", done=True) for n in range(MOST_TODOS))).to_json()


def full_tasks() -> Any:
    return TaskQueue(tuple(Task(n, "x") for n in range(1, MOST_TASKS + 1))).to_json()


@pytest.mark.parametrize(
    ("key", "full", "call", "said"),
    [
        ("todos", full_todos, ("todo__add", {"task": "one more"}), "full (1,000 items"),
        (
            "tasks",
            full_tasks,
            ("agent__task_create", {"subject": "one more"}),
            "full (10,000 tasks",
        ),
    ],
    ids=["todos", "tasks"],
)
def test_lists_have_an_end(
    engine: Engine,
    server: ModelServer,
    key: str,
    full: Callable[[], Any],
    call: tuple[str, dict[str, str]],
    said: str,
) -> None:
    looks = calls(("todo__list", {}), ("agent__task_list", {}))
    converses(server, "Lead.", looks, calls(call), looks, DONE)

    run_id = lead(engine)
    engine.work_once()
    engine.redis.hset(run_key("state", run_id), key, json.dumps(full()))
    engine.drive()

    assert engine.run(run_id).output == "Done."
    refused, *after = told(server)[2:]
    assert said in (refused.get("error") or refused["message"])
    entries = next(found for result in after if (found := result.get(key)))
    assert len(entries) == len(full()["todos"] if key == "todos" else full())


def test_an_inbox_takes_so_much_and_no_more(engine: Engine, server: ModelServer) -> None:
    def tells(*texts: str) -> Callable[[Request], Reply]:
        return lambda request: calls(
            *(
                ("agent__send_message", {"id": agents_in(request)[0], "message": text})
                for text in texts
            )
        )

    looks = calls(("agent__check_inbox", {}))
    ask = calls(("user__input", {"question": "?"}))
    many = [f"{n}" for n in range(MOST_UNREAD // 2)]
    largest = "x" * (LARGEST_BYTES - 2)
    converses(server, "Job", ask, looks, ask, DONE)
    converses(
        server, "Lead.", spawns("Job."), tells(f"{largest}x", largest), tells(*many[1:]),
        tells(*many, "too many"), ask, tells("fits again"),
    )  # fmt: skip

    run_id = lead(engine)
    engine.drive()
    (child,) = engine.queries.children(run_id)
    refused = [each["message"] for each in told(server) if each["status"] == "error"]
    engine.client.answer(child.run_id, "go on")
    engine.drive()
    engine.client.answer(run_id, "go on", "user__input")
    engine.drive()

    assert "larger than 32 KiB" in refused[0]
    assert [text.partition(" has ")[2] for text in refused[1:]] == [
        "200 unread messages, the maximum; try again later"
    ]
    (_, inbox) = (json.loads(result) for result in results(server, "Job")[:2])
    assert inbox["count"] == MOST_UNREAD
    assert inbox["messages"][0]["payload"]["content"] == largest
    assert engine.redis.llen(run_key("messages", child.run_id)) == MOST_UNREAD + 1


def test_the_outputs_of_children_do_not_end_who_collects_them(
    engine: Engine, server: ModelServer
) -> None:
    jobs = ("Job 1.", "Job 2.", "Job 3.")
    converses(server, "Lead.", spawns(*jobs), collects_all, DONE)
    converses(server, "Job", says("x" * 3_000_000))
    server.script.when(lambda request: "x" * 100 in request.prompt, fails(400, "too long"))

    run_id = lead(engine)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    *_, collected = told(server)
    (*_, child) = engine.queries.children(run_id)
    assert len(collected["output"]) == 1_000_000
    assert "too long; cut after 1,000,000 characters; run " in collected["warning"]
    assert collected["warning"].endswith(f"run {child.run_id} has the full output")
    assert len(child.output or "") == 3_000_000


def test_nobody_is_asked_what_is_too_long_to_read(engine: Engine, server: ModelServer) -> None:
    long = "x" * 70_000
    wipe = '''
def wipe(what: str) -> str:
    """Remove something."""
    from sleipnir.tool import guard

    guard(f"Really wipe {what}?")
    return "wiped"
'''
    converses(server, "Job", calls(
        ("user__ask", {"question": long, "options": []}),
        ("user__checkbox", {"question": "?", "options": ["x"] * 20_000}),
        ("user__input", {"question": "\x1b" * 20_000}),
        ("wipe", {"what": long}),
    ), DONE)  # fmt: skip

    engine.write_normal("worker", "model: openai:m\n", {"tools.py": wipe})
    engine.client.submit(engine.client.prepare("worker"), RunRequest(prompt="Job."))
    engine.drive()

    errors = [json.loads(result)["tool_call_error"] for result in results(server, "Job")]
    assert all("larger than 64 KiB" in error for error in errors)
    assert [error.partition(":")[0] for error in errors] == [
        *("user__ask", "user__checkbox", "user__input", "wipe"),
    ]
    assert engine.inbox() == []


def test_what_is_repeated_at_length_is_not_repeated_by_the_engine(
    engine: Engine, server: ModelServer
) -> None:
    again = calls(("todo__add", {"task": "x" * 400_000}))
    converses(server, "Lead.", *[again] * 4, DONE)

    run_id = lead(engine)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    alerts = [result["tool_call_loop_alert"] for result in told(server)[2:]]
    assert [alert.keys() for alert in alerts] == [{"error"}] * 2
