"""The todo list of a run, and models that are told to go on with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.runs.events import Continued, Paused, ToolCalled
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.errors import RedisError
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says

CONFIG = """
model: openai:m
instructions: Work.
auto_continue: true
"""


def results(server: ModelServer) -> list[Any]:
    sent = server.requests[-1].messages
    return [json.loads(each["content"]) for each in sent if each["role"] == "tool"]


def users(server: ModelServer) -> list[str]:
    return [each["content"] for each in server.requests[-1].messages if each["role"] == "user"]


def test_a_list_is_kept_with_the_run(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(
            ("todo__init", {"goal": "tea"}),
            ("todo__add", {"task": "boil"}),
            ("todo__add", {"task": "pour"}),
            ("todo__done", {"id": "1"}),
        ),
        calls(("todo__list", {})),
        calls(("todo__clear", {})),
        says("Enough."),
    )

    run_id = engine.submit_normal(CONFIG)
    engine.drive()

    assert engine.run(run_id).output == "Enough."
    init, boil, pour, done, shown, _ = results(server)
    assert init["status"] == done["status"] == "ok"
    assert (boil, pour) == ({"status": "ok", "id": 1}, {"status": "ok", "id": 2})
    assert shown == {
        "goal": "tea",
        "todos": [
            {"id": 1, "desc": "boil", "done": True},
            {"id": 2, "desc": "pour", "done": False},
        ],
    }
    checkpoints = list(engine.queries.checkpoints(run_id))
    assert ["todos" in each.writes for each in checkpoints[1:]] == [True, False, True, False]


def test_mistakes_are_results(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(
            ("todo__add", {"task": " "}),
            ("todo__add", {}),
            ("todo__add", {"task": 5}),
            ("todo__done", {"id": 3}),
            ("todo__done", {"id": "third"}),
            ("todo__init", {"goal": None}),
        ),
        says("I see."),
    )

    run_id = engine.submit_normal(CONFIG)
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    assert [next(iter(result)) for result in results(server)] == [
        "error",
        "tool_call_error",
        "tool_call_error",
        "error",
        "error",
        "tool_call_error",
    ]


def test_a_model_that_stops_early_is_told_to_go_on(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(("todo__add", {"task": "boil"})),
        says("I will boil."),
        calls(("todo__done", {"id": 1})),
        says("Boiled."),
    )

    run_id = engine.submit_normal(CONFIG, prompt="Tea.")
    engine.drive()

    assert engine.run(run_id).output == "Boiled."
    first, reminder = users(server)
    assert first == "Tea."
    assert reminder.endswith("\n\nProgress: 0/1 completed\n  ○ 1. boil")
    assert "automatic" in reminder
    told = engine.events(run_id, Continued)
    assert [(event.number, event.of, event.open) for event in told] == [(1, 10, 1)]


def test_a_model_that_pauses_is_not_told_to_continue(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(("todo__add", {"task": "boil"}), ("todo__pause", {"reason": " No kettle. "})),
        calls(("todo__clear", {}), ("todo__add", {"task": "buy"})),
        says("I need a kettle."),
        says("Still open."),
        calls(("todo__done", {"id": 1})),
        says("Bought."),
    )

    run_id = engine.submit_normal(CONFIG, session="tea", prompt="Tea.")
    engine.drive()
    first = engine.run(run_id).output
    second = engine.client.submit("talker", Request(session="tea", prompt="Here is one."))
    engine.drive()

    assert (first, engine.run(second).output) == ("I need a kettle.", "Bought.")
    assert [event.reason for event in engine.events(run_id, Paused)] == ["No kettle."]
    assert engine.events(run_id, Continued) == []
    assert len(engine.events(second, Continued)) == 1
    offered = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    todos = [name for name in offered if name.startswith("todo__")]
    assert todos[-2:] == ["todo__clear", "todo__pause"]


def test_a_pause_needs_a_reason(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("todo__pause", {"reason": " "}), ("todo__pause", {})), says("I see."))

    engine.submit_normal(CONFIG)
    engine.drive()

    assert [next(iter(result)) for result in results(server)] == ["error", "tool_call_error"]


def test_it_is_told_so_often_at_most(engine: Engine, server: ModelServer) -> None:
    config = CONFIG + "max_auto_continues: 2\ncontinuation_prompt: Go on.\n"
    server.script.add(
        calls(("todo__add", {"task": "boil"})), says("One."), says("Two."), says("Three.")
    )

    run_id = engine.submit_normal(config)
    engine.drive()

    assert engine.run(run_id).output == "Three."
    assert [text.partition("\n")[0] for text in users(server)[1:]] == ["Go on."] * 2


def test_the_same_words_again_end_the_run(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("todo__add", {"task": "boil"})), says("Later."), says("Later."))

    run_id = engine.submit_normal(CONFIG)
    engine.drive()

    assert engine.run(run_id).output == "Later."
    assert len(server.requests) == 3


def test_the_prompt_says_how_and_the_switches_hold(engine: Engine, server: ModelServer) -> None:
    server.when(lambda _: True, says("Hello."))

    for config in (CONFIG, CONFIG + "inject_todo_instructions: false\n", "model: openai:m"):
        engine.submit_normal(config)
    engine.drive()

    told = ["todo__done" in request.messages[0]["content"] for request in server.requests]
    offered = [
        [tool["function"]["name"] for tool in request.body.get("tools", ())]
        for request in server.requests
    ]
    assert told == [True, False, False]
    assert [sum(name.startswith("todo__") for name in names) for names in offered] == [6, 6, 0]


def test_what_a_lost_worker_had_noted_is_noted_once(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    adding = [("todo__add", {"task": task}) for task in ("boil", "pour")]
    server.script.add(
        calls(*adding, ("agent__check_inbox", {})),
        calls(("todo__list", {})),
        says("Enough."),
    )
    advance = engine.store.visits.advance

    def refuse(*_: object, **__: object) -> str:
        raise RedisError

    monkeypatch.setattr(engine.store.visits, "advance", refuse)
    engine.submit_normal(CONFIG + "max_auto_continues: 0\n")
    with pytest.raises(RedisError):
        engine.drive()
    monkeypatch.setattr(engine.store.visits, "advance", advance)
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    added, *_, shown = results(server)
    assert added == {"status": "ok", "id": 1}
    assert [each["desc"] for each in shown["todos"]] == ["boil", "pour"]
    assert len(server.requests) == 3


def test_a_turn_records_its_reply_and_the_engines_own_calls_with_the_commit(
    engine: Engine, server: ModelServer
) -> None:
    turns = 10
    adding = [calls(("todo__add", {"task": f"{n}"}), ("gone", {})) for n in range(turns - 1)]
    server.script.add(*adding, says("Enough."))
    run_id = engine.submit_normal(CONFIG + "max_auto_continues: 0\n")
    engine.redis.config_resetstat()

    engine.drive()

    # Each begins, records its reply, and commits together with its log and transcript.
    assert engine.redis.info("commandstats")["cmdstat_evalsha"]["calls"] <= 5 * turns + 5
    told = [(event.tool, event.failure is None) for event in engine.events(run_id, ToolCalled)]
    assert told == [("todo__add", True), ("gone", False)] * (turns - 1)
    assert engine.run(run_id).usage.prompt_tokens == 10 * turns
    logged = [each["text"] for each in engine.queries.logs(run_id)]
    assert sum(text.startswith("todo__add") for text in logged) == turns - 1


def test_what_goes_with_a_commit_is_told_once_where_redis_has_forgotten_the_scripts(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("todo__add", {"task": "boil"})), says("Enough."))
    run_id = engine.submit_normal(CONFIG + "max_auto_continues: 0\n")
    engine.work_once()
    begin = engine.store.visits.begin

    def forgetting(*arguments: Any, **options: Any) -> Any:
        begun = begin(*arguments, **options)
        engine.redis.script_flush()
        return begun

    engine.store.visits.begin = forgetting  # type: ignore[method-assign]
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    assert len(engine.events(run_id, ToolCalled)) == 1
    logged = [each["text"] for each in engine.queries.logs(run_id)]
    assert sum(text.startswith("todo__add") for text in logged) == 1
