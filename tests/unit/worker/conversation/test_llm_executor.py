"""The `llm` node: a visit in, an outcome out, with a model server on the loopback interface."""

from __future__ import annotations

import json
from threading import Barrier
from time import monotonic
from typing import Any, NoReturn

import pytest

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import LlmNode
from sleipnir.scheduler.process.backoff import Backoff
from sleipnir.scheduler.runs.events import ModelCalled
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.conversation.function_kinds import (
    FunctionCall,
    ProgramFunction,
    ServerFunction,
)
from sleipnir.worker.conversation.tool_set import Toolset
from sleipnir.worker.executors.llm import run_llm
from sleipnir.worker.llm.caller import MustWait
from sleipnir.worker.tools.call import Completed
from sleipnir.worker.visit.context import Visit, VisitLimits
from sleipnir.worker.visit.outcome import Deferred, Postponed, Wrote
from tests.support.graphs import make_graph
from tests.support.model_server import HANGS, RESETS, ModelServer, Reply, calls, fails, says
from tests.support.visits import DirectModels, GivenTools, KeptServices, a_visit

PASSING = (408, 409, 425, 500, 502, 503, 504, *range(520, 525), 529)
NAME_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    # So that no test's time limit includes what litellm takes to load and to make a first call.
    with ModelServer(says("warm")) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        patch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        run_llm(visit({}))


def visit(
    node: dict[str, Any],
    state: dict[str, Any] | None = None,
    graph: dict[str, Any] | None = None,
    **facts: Any,
) -> Visit[LlmNode]:
    llm = LlmNode(**{"id": "ask", "prompt": "Say hello.", "next": "done", **node})
    fields = {"name": "g", "start": "ask", "nodes": {"ask": llm}, "model": "openai:m"}
    whole = make_graph({**fields, **(graph or {})})
    return a_visit(llm, whole, state=state, **facts)


def tolerated(outcome: object) -> str:
    """The reason of a tolerated failure."""
    assert isinstance(outcome, Wrote)
    assert outcome.failure is not None
    assert outcome.output == f"LLM node failed: {outcome.failure}"
    return outcome.failure


def test_the_answer_is_the_output_and_the_route_is_next(server: ModelServer) -> None:
    server.script.add(says("hello"))

    asking = visit({})
    outcome = run_llm(asking)

    assert outcome == Wrote({}, output="hello")
    assert asking.services.conversation.recorded_usage == Usage(10, 5, None)


def test_the_conversation_is_the_rendered_instructions_and_prompt(server: ModelServer) -> None:
    server.script.add(says("hello"))

    run_llm(visit({"instructions": "Be {{mood}}.", "prompt": "Hi {{n}}"}, {"mood": "kind", "n": 1}))

    assert server.requests[0].messages == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi 1"},
    ]


def test_without_instructions_there_is_no_system_message(server: ModelServer) -> None:
    server.script.add(says("hello"))

    run_llm(visit({}))

    assert server.requests[0].messages == [{"role": "user", "content": "Say hello."}]


@pytest.mark.parametrize(
    ("node", "graph", "model"),
    [
        ({"model": "openai:a"}, {"model": "openai:b"}, "a"),
        ({}, {"model": "openai:b"}, "b"),
        ({}, {"model": None}, "c"),
    ],
)
def test_the_model_is_the_nodes_else_the_graphs_else_the_engines(
    server: ModelServer,
    node: dict[str, Any],
    graph: dict[str, Any],
    model: str,
) -> None:
    server.script.add(says("hello"))

    services = KeptServices(DirectModels(default="openai:c"))
    run_llm(visit(node, graph=graph, services=services))

    assert server.requests[0].body["model"] == model


def test_no_model_at_all_is_a_tolerated_failure() -> None:
    outcome = run_llm(visit({}, graph={"model": None}))

    assert tolerated(outcome).startswith("no model set")


def test_a_nodes_zero_temperature_wins_over_the_graphs(server: ModelServer) -> None:
    server.script.add(says("hello"))

    run_llm(visit({"temperature": 0.0}, graph={"temperature": 0.7, "top_p": 0.5}))

    assert server.requests[0].body["temperature"] == 0.0
    assert server.requests[0].body["top_p"] == 0.5


def test_each_call_is_narrated(server: ModelServer) -> None:
    server.script.add(says("Ada"), says('{"name": "Ada"}'))
    services = KeptServices()

    run_llm(visit({"output_schema": NAME_SCHEMA}, services=services))

    assert services.narration.events == [ModelCalled("ask", "openai:m", tools=())] * 2


def test_what_the_model_said_is_kept_for_logs_without_secrets(server: ModelServer) -> None:
    server.script.add(says("it is hunter2"), says('{"name": "Ada"}'))
    asking = visit({"output_schema": NAME_SCHEMA}, secrets=("hunter2",))

    run_llm(asking)

    said = [text for stream, text in asking.services.run_log if stream == "llm"]
    assert said == ["it is ***", '{"name": "Ada"}']


def test_state_updates_see_the_output_and_win_over_merged_keys(server: ModelServer) -> None:
    server.script.add(says('{"name": "Ada", "age": 36}'))
    updates = {"name": "{{output.name}}!", "whole": "{{output}}"}

    outcome = run_llm(visit({"output_schema": NAME_SCHEMA, "state_updates": updates}))

    assert isinstance(outcome, Wrote)
    assert outcome.output == {"name": "Ada", "age": 36}
    assert outcome.writes == {"name": "Ada!", "age": 36, "whole": {"name": "Ada", "age": 36}}


def test_only_a_few_of_many_keys_left_out_are_told(server: ModelServer) -> None:
    keys = [f"k{number}" for number in range(12)]
    server.script.add(says(json.dumps({"name": "Ada"} | dict.fromkeys(keys, 1))))
    graph = {"initial_state": dict.fromkeys(keys, 0)}

    outcome = run_llm(visit({"output_schema": NAME_SCHEMA}, graph=graph))

    assert isinstance(outcome, Wrote)
    assert outcome.writes == {"name": "Ada"}
    assert len(outcome.warnings) == 11
    assert outcome.warnings[-1] == "[ask] 2 more undeclared keys of the reply left out"


def test_a_structured_value_that_is_no_object_is_only_the_output(server: ModelServer) -> None:
    server.script.add(says("[1, 2]"))

    outcome = run_llm(visit({"output_schema": {"type": "array"}}))

    assert isinstance(outcome, Wrote)
    assert (outcome.output, outcome.writes) == ([1, 2], {})


@pytest.mark.parametrize("instructions", [None, "Be kind."])
def test_the_schema_hint_goes_to_the_instructions_if_there_are_any(
    server: ModelServer, instructions: str | None
) -> None:
    server.script.add(says('{"name": "Ada"}'))

    run_llm(visit({"output_schema": NAME_SCHEMA, "instructions": instructions}))

    first, *others = [message["content"] for message in server.requests[0].messages]
    assert "Schema:\n{" in first
    assert others == ([] if instructions is None else ["Say hello."])


def test_the_hint_is_never_interpolated(server: ModelServer) -> None:
    server.script.add(says('"x"'))

    run_llm(visit({"output_schema": {"const": "x", "description": "{{name}}"}}, {"name": "Ada"}))

    assert '"{{name}}"' in server.requests[0].prompt


def test_an_extractor_call_counts_in_the_usage(server: ModelServer) -> None:
    server.script.add(says("It is Ada."), says('{"name": "Ada"}'))

    extracting = visit({"output_schema": NAME_SCHEMA, "temperature": 0.25})
    outcome = run_llm(extracting)

    assert isinstance(outcome, Wrote)
    assert outcome.output == {"name": "Ada"}
    assert extracting.services.conversation.recorded_usage == Usage(20, 10, None)
    assert outcome.usage == NO_USAGE
    assert [request.body["temperature"] for request in server.requests] == [0.25, 0.25]


def test_a_failed_extraction_is_tolerated_and_not_retried(server: ModelServer) -> None:
    server.script.add(says("It is Ada."), fails(429, "slow down"))

    extracting = visit({"output_schema": NAME_SCHEMA, "max_attempts": 3})
    outcome = run_llm(extracting)

    assert tolerated(outcome) == "structured output: HTTP 429: slow down"
    assert isinstance(outcome, Wrote)
    assert extracting.services.conversation.recorded_usage + outcome.usage == Usage(10, 5, None)


def test_a_missing_reference_fails_before_any_call(server: ModelServer) -> None:
    outcome = run_llm(visit({"prompt": "{{gone}} {{lost}}", "max_attempts": 3}))

    assert tolerated(outcome) == "nothing in the state for 'gone', 'lost'"
    assert server.requests == []


def test_a_failure_applies_state_updates_and_takes_the_fallback(server: ModelServer) -> None:
    server.script.add(fails(400, "no such model"))
    updates = {"answer": "{{output}}"}

    outcome = run_llm(visit({"state_updates": updates, "fallback": "rescue"}))

    assert isinstance(outcome, Wrote)
    assert outcome.failure == "HTTP 400: no such model"
    assert outcome.targets == ("rescue",)
    assert outcome.writes == {"answer": "LLM node failed: HTTP 400: no such model"}


def test_a_failure_without_fallback_goes_to_next(server: ModelServer) -> None:
    server.script.add(fails(400, "no such model"))

    outcome = run_llm(visit({"next": ["a", "b"]}))

    assert isinstance(outcome, Wrote)
    assert outcome.targets is None


@pytest.mark.parametrize("index", [None, 3], ids=["node", "map invocation"])
def test_a_failure_with_nowhere_to_go_is_fatal(server: ModelServer, index: int | None) -> None:
    server.script.add(fails(400, "no such model"))

    with pytest.raises(NodeFailed, match="R014: HTTP 400: no such model"):
        run_llm(visit({"next": None}, item_index=index))


def test_a_map_invocation_answers_without_a_route(server: ModelServer) -> None:
    server.script.add(says("one"))

    outcome = run_llm(visit({"prompt": "{{item}}", "next": None}, {"item": 1}, item_index=0))

    assert outcome == Wrote({}, output="one")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (fails(429, "slow down"), "HTTP 429: slow down"),
        *((fails(status, "oops"), f"HTTP {status}: oops") for status in PASSING),
        (fails(501, "Rate Limit of the account"), "HTTP 501: Rate Limit of the account"),
        (fails(400, "upstream timed out"), "HTTP 400: upstream timed out"),
        (fails(401, "connection REFUSED by upstream"), "HTTP 401: connection REFUSED"),
        (fails(400, "The engine is OVERLOADED"), "HTTP 400: The engine is OVERLOADED"),
        (fails(404, "Temporarily unavailable."), "HTTP 404: Temporarily unavailable."),
        (RESETS, "Connection reset at "),
        (says(" \n"), "produced no output"),
    ],
)
def test_a_passing_failure_is_postponed_while_attempts_are_left(
    server: ModelServer, reply: Reply, reason: str
) -> None:
    server.script.add(reply, reply)

    first = run_llm(visit({"max_attempts": 2}, attempt=1))
    last = run_llm(visit({"max_attempts": 2}, attempt=2))

    assert isinstance(first, Postponed)
    assert first.reason.startswith(reason)
    assert tolerated(last).startswith(reason)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501, 505])
def test_any_other_failure_is_not_repeated(server: ModelServer, status: int) -> None:
    server.script.add(fails(status, "the upstream answered: HTTP 500: oops"))

    outcome = run_llm(visit({"max_attempts": 5}))

    assert tolerated(outcome)


def test_the_graph_says_how_often_its_nodes_try(server: ModelServer) -> None:
    server.script.add(*[fails(502, "oops")] * 3)
    graph = {"settings": {"llm_attempts": 2}}

    assert isinstance(run_llm(visit({}, graph=graph)), Postponed)
    assert tolerated(run_llm(visit({}, graph=graph, attempt=2)))
    assert tolerated(run_llm(visit({"max_attempts": 1}, graph=graph)))


@pytest.mark.parametrize(
    ("attempt", "delay_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (5_000, 30.0)]
)
def test_delays_double_up_to_half_a_minute(
    server: ModelServer, attempt: int, delay_s: float
) -> None:
    server.script.add(fails(429, "slow down"))

    outcome = run_llm(visit({"max_attempts": 9_999}, attempt=attempt))

    assert outcome == Postponed(delay_s, "HTTP 429: slow down")


def test_the_engine_sets_the_delays(server: ModelServer) -> None:
    server.script.add(fails(429, "slow down"), fails(429, "slow down"))
    limits = VisitLimits(model_backoff=Backoff(0.1, 0.3))

    delays = [run_llm(visit({"max_attempts": 9}, attempt=n, limits=limits)) for n in (2, 3)]

    assert delays == [Postponed(n, "HTTP 429: slow down") for n in (0.2, 0.3)]


@pytest.mark.parametrize(("retry_after", "delay_s"), [("7", 7.0), ("0", 0.5)])
def test_a_larger_retry_after_wins(server: ModelServer, retry_after: str, delay_s: float) -> None:
    server.script.add(fails(429, "slow down", {"Retry-After": retry_after}))

    outcome = run_llm(visit({"max_attempts": 2}))

    assert outcome == Postponed(delay_s, "HTTP 429: slow down")


def test_a_postponed_attempt_keeps_its_usage(server: ModelServer) -> None:
    server.script.add(says(""))

    asking = visit({"max_attempts": 2})
    outcome = run_llm(asking)

    assert outcome == Postponed(0.5, "produced no output")
    assert asking.services.conversation.recorded_usage == Usage(10, 5, None)


def test_a_delay_ends_with_the_nodes_time_limit(server: ModelServer) -> None:
    server.script.add(fails(429, "slow down", {"Retry-After": "3600"}))

    outcome = run_llm(visit({"max_attempts": 2, "timeout": 60}, age_s=50.0))

    assert isinstance(outcome, Postponed)
    assert 9.0 < outcome.delay_s <= 10.0


def test_the_nodes_time_limit_is_not_retried(server: ModelServer) -> None:
    server.script.add(HANGS)

    outcome = run_llm(visit({"max_attempts": 3, "timeout": 0.2}))

    assert tolerated(outcome) == "timed out after 0.2s"


def test_zero_is_no_time_limit(server: ModelServer) -> None:
    server.script.add(says("done"))

    outcome = run_llm(visit({"timeout": 0}, age_s=100_000.0))

    assert isinstance(outcome, Wrote)
    assert outcome.output == "done"


def test_the_time_limit_covers_earlier_attempts(server: ModelServer) -> None:
    outcome = run_llm(visit({"max_attempts": 3, "timeout": 60}, attempt=2, age_s=60.0))

    assert tolerated(outcome) == "timed out after 60s"
    assert server.requests == []
    assert isinstance(outcome, Wrote)
    assert outcome.usage == NO_USAGE


def test_the_time_limit_covers_extraction(server: ModelServer) -> None:
    server.script.add(says("It is Ada."), HANGS)

    outcome = run_llm(visit({"output_schema": NAME_SCHEMA, "timeout": 0.5}))

    assert tolerated(outcome) == "timed out after 0.5s"
    assert len(server.requests) == 2


def test_no_call_outlives_the_run(server: ModelServer) -> None:
    server.script.add(HANGS)
    began = monotonic()

    outcome = run_llm(visit({"timeout": 60}, run_ends_at=began + 0.2))

    assert tolerated(outcome).startswith("timed out after 0.")
    assert monotonic() - began < 5.0


def test_stringified_updates_are_text(server: ModelServer) -> None:
    server.script.add(says('{"name": "Ada"}'))
    node = {"output_schema": NAME_SCHEMA, "state_updates": {"whole": "{{output}}"}}

    outcome = run_llm(visit(node, graph={"settings": {"stringify_state_updates": True}}))

    assert isinstance(outcome, Wrote)
    assert outcome.writes["whole"] == '{"name":"Ada"}'


def test_waiting_for_a_limit_ends_with_the_time_of_the_node() -> None:
    def wait(*_: object) -> NoReturn:
        raise MustWait(600.0, "no more than 1 call at once")

    outcome = run_llm(visit({"timeout": 30}, services=KeptServices(DirectModels(ask_model=wait))))

    assert isinstance(outcome, Deferred)
    assert outcome.delay_s <= 30


def test_a_node_that_fails_still_says_which_functions_it_went_without(server: ModelServer) -> None:
    server.script.add(fails(400, "no such model"))
    toolset = Toolset(warnings=("MCP server 'notes' is unavailable",))

    services = KeptServices(tools=GivenTools(toolset))
    outcome = run_llm(visit({"tools": ["mcp:notes"]}, services=services))

    assert isinstance(outcome, Wrote)
    assert (outcome.failure, outcome.warnings) == ("HTTP 400: no such model", toolset.warnings)


def test_so_many_calls_of_a_reply_run_side_by_side_and_no_more(server: ModelServer) -> None:
    server.script.add(calls(*[("look", {"at": n}) for n in range(8)]), says("done"))
    together = Barrier(4, timeout=60)
    running: list[int] = []
    most = []

    def look(call: FunctionCall) -> Completed:
        running.append(call.arguments["at"])
        together.wait()
        most.append(len(running))
        together.wait()
        running.remove(call.arguments["at"])
        return Completed("seen")

    declaration = {"type": "function", "function": {"name": "look", "parameters": {}}}
    toolset = Toolset({"look": ServerFunction(declaration, look, lambda _: None)})
    services = KeptServices(tools=GivenTools(toolset))
    limits = VisitLimits(call_threads=4)
    asking = visit({"tools": ["look"]}, limits=limits, services=services)

    outcome = run_llm(asking)

    assert isinstance(outcome, Wrote)
    assert outcome.output == "done"
    assert most == 8 * [4]


@pytest.mark.parametrize(("refuses", "carried_out"), [(True, 3), (False, 5)])
def test_a_node_may_refuse_calls_that_go_round_in_circles(
    server: ModelServer, refuses: bool, carried_out: int
) -> None:
    same, other = calls(("look", {"at": 1})), calls(("look", {"at": 2}))
    server.script.add(same, same, same, same, other, says("done"))
    seen: list[Any] = []

    def look(invocation: FunctionCall) -> Completed:
        seen.append(invocation.arguments)
        return Completed("seen")

    declaration = {"type": "function", "function": {"name": "look", "parameters": {}}}
    services = KeptServices(tools=GivenTools(Toolset({"look": ProgramFunction(declaration, look)})))
    asking = visit({"tools": ["look"], "refuse_repeated_calls": refuses}, services=services)

    outcome = run_llm(asking)

    assert isinstance(outcome, Wrote)
    assert len(seen) == carried_out
    told = [each["content"] for each in server.requests[-1].messages if each["role"] == "tool"]
    assert ["loop_alert" in each for each in told] == [False, False, refuses, refuses, False]
