"""What a call of the engine's own functions leaves behind, also if another worker takes it over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sleipnir.graphs.schema import LlmNode
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.conversation.declaring import Arguments, Declared, Param
from sleipnir.worker.conversation.function_kinds import (
    CallResult,
    EngineFunction,
    FunctionCall,
    PureFunction,
    TransitionFunction,
    WaitingFunction,
    refusal,
)
from sleipnir.worker.conversation.loop import CarriedOut, Parked, carry_out
from sleipnir.worker.conversation.tool_set import Toolset
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.client import Reply
from sleipnir.worker.visit.exchanges import CallTime
from sleipnir.worker.visit.outcome import Asked, Awaiting
from tests.support.visits import KeptServices, a_visit

READ = {"count": Param("integer", "How many.")}
NODE = LlmNode(id="ask", prompt="Hi.", next="done")


def reading(act: Callable[[int], CallResult]) -> TransitionFunction:
    """A function that reads messages, and has the run remember how many."""

    def learn(notebook: Notebook, _: FunctionCall, value: Any) -> Notebook:
        return replace(notebook, messages_read=notebook.messages_read + value["count"])

    return TransitionFunction(
        Declared("read", "", READ), lambda _, call: act(call.arguments["count"]), learn
    )


def _load(notebook: Notebook, arguments: Arguments) -> tuple[Notebook, Any]:
    if arguments["name"] in notebook.skills:
        raise refusal("it is loaded already")
    return replace(notebook, skills=(*notebook.skills, arguments["name"])), {"status": "ok"}


LOAD = PureFunction(Declared("load", "", {"name": Param("string", "Which.")}), _load)


def replying(*calls: tuple[str, dict[str, Any]]) -> Reply:
    made = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    return Reply({"role": "assistant", "content": None, "tool_calls": made}, NO_USAGE)


def carried_out(
    services: KeptServices,
    reply: Reply,
    *functions: EngineFunction,
    arrived: dict[str, str] | None = None,
) -> CarriedOut:
    """Carry out a reply's calls; with the same services again, as another worker does."""
    calls = ModelCalls(a_visit(NODE, services=services, arrived=arrived or {}), "openai:m")
    if calls.transcript.next_reply() is None:
        calls.transcript.took(reply, CallTime(0.0, 0.0))
    toolset = Toolset({function.name: function for function in functions})
    return carry_out(calls, toolset, reply, Notebook(), {})


def test_who_takes_over_learns_from_results_and_makes_no_call_again() -> None:
    services, acted = KeptServices(), list[int]()

    def act(count: int) -> CallResult:
        acted.append(count)
        return CallResult({"count": count}, Usage(3, 1, None))

    reply = replying(("read", {"count": 2}), ("load", {"name": "sums"}), ("read", {"count": 3}))
    first, second = (carried_out(services, reply, reading(act), LOAD) for _ in range(2))

    assert acted == [2, 3]
    assert first == second
    assert first.notebook == Notebook(messages_read=5, skills=("sums",))
    assert services.conversation.recorded_usage == Usage(6, 2, None)
    assert [entry.get("usage") for entry in services.conversation.recorded[1:]] == [
        Usage(3, 1, None).to_list(),
        None,
        Usage(3, 1, None).to_list(),
    ]


def test_what_was_refused_has_changed_nothing_and_is_not_tried_again() -> None:
    services, acted = KeptServices(), list[int]()

    def act(count: int) -> CallResult:
        acted.append(count)
        raise refusal("not now")

    twice = ("load", {"name": "sums"})
    reply = replying(("read", {"count": 2}), ("read", {}), twice, twice)
    first, second = (carried_out(services, reply, reading(act), LOAD) for _ in range(2))

    assert acted == [2]
    assert first == second
    assert first.notebook == Notebook(skills=("sums",))
    refused, misfit, _, again = (value for _, value in first.results)
    assert [refused, again] == [
        {"status": "error", "message": "not now"},
        {"status": "error", "message": "it is loaded already"},
    ]
    assert misfit == {"tool_call_error": "read: missing required argument 'count'"}


def test_a_transition_that_finds_nothing_to_change_is_a_refusal() -> None:
    services = KeptServices()

    def record(*_: object) -> None:
        raise LookupError

    def act(count: int) -> CallResult:
        return CallResult({"count": count}, recorder=record, refusals={LookupError: lambda: "gone"})

    done = carried_out(services, replying(("read", {"count": 2})), reading(act))

    assert done.notebook == Notebook()
    assert done.results[0][1] == {"status": "error", "message": "gone"}
    assert services.conversation.recorded[-1]["result"] == done.results[0][1]


def test_pure_calls_alone_are_not_recorded_before_their_commit() -> None:
    services, reply = KeptServices(), replying(("load", {"name": "sums"}))

    first, second = (carried_out(services, reply, LOAD) for _ in range(2))

    assert first == second
    assert [list(entry) for entry in services.conversation.recorded] == [["reply", "usage", "time"]]


def test_a_call_that_waits_parks_the_visit_and_finishes_with_what_arrives() -> None:
    services = KeptServices()
    waiting = WaitingFunction(
        Declared("wait", "", {}),
        lambda _notebook, _call: Asked("ask", "Which?"),
        lambda _notebook, _call, arrived: CallResult({"answer": arrived}),
    )
    reply = replying(("wait", {}), ("load", {"name": "sums"}), ("wait", {}))

    with pytest.raises(Parked) as parked:
        carried_out(services, reply, waiting, LOAD)
    arrived = {"wait": "this", "wait/2": ""}
    done = carried_out(services, reply, waiting, LOAD, arrived=arrived)

    asked = (Asked("ask", "Which?", call="wait"), Asked("ask", "Which?", call="wait/2"))
    assert parked.value.outcome == Awaiting(asked, ("load",))
    assert parked.value.notebook == done.notebook == Notebook(skills=("sums",))
    assert [value for _, value in done.results] == [
        {"answer": "this"},
        {"status": "ok"},
        {"answer": ""},
    ]
