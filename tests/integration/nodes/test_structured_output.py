"""Schemas that are a field of the request, and servers that do not take the field."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from sleipnir.scheduler.runs.recording import written
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Reply, Request, fails, says

LABELS = ["billing", "technical", "other"]
HINT = "Your whole reply must be a single JSON value"
GRAPH = """
model: home:m
start: sort
nodes:
  sort:
    type: llm
    prompt: "Which: {{initial_prompt}}?"
    output_schema:
      type: object
      required: [label, sure]
      properties: {label: {enum: [billing, technical, other]}, sure: {type: boolean}}
    next: done
  done: {type: end, output: "{{label}}"}
"""


def conforming(schema: dict[str, Any]) -> Any:
    """Return a value that conforms to a schema of these tests."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "object":
            return {name: conforming(part) for name, part in schema["properties"].items()}
        case "array":
            return [conforming(schema["items"])]
        case "boolean":
            return True
        case kind:
            return {"string": "text", "integer": 1, "number": 0.5}[kind]


def enforces(request: Request) -> Reply:
    """Reply as a server that enforces schemas, and chat if it is given none."""
    field = request.body.get("response_format")
    if field is None:
        return says("I would say: billing.")
    return says(json.dumps(conforming(field["json_schema"]["schema"])))


def refuses(request: Request) -> Reply:
    """Reply as a server that knows no schemas."""
    if "response_format" in request.body:
        return fails(400, "Unrecognized request argument supplied: Response_Format")
    return says('{"label": "billing", "sure": true}' if HINT in request.text else "Billing, yes.")


@pytest.fixture
def home(engine: Engine, server: ModelServer) -> Engine:
    """An engine with a server that is said to take schemas."""
    return configured(engine, server, structured=True)


def configured(engine: Engine, server: ModelServer, **provider: Any) -> Engine:
    engine.configure(models={"providers": {"home": {"api_base": server.base_url, **provider}}})
    return engine


def test_a_schema_is_a_field_of_the_request_and_not_in_the_prompt(
    home: Engine, server: ModelServer
) -> None:
    server.script.when(lambda _: True, enforces)

    run = home.finish(GRAPH, prompt="my bill")

    assert run.output == "billing"
    (request,) = server.requests
    assert request.messages == [{"role": "user", "content": "Which: my bill?"}]
    field = request.body["response_format"]
    assert field["json_schema"]["name"] == "sort"
    assert field["json_schema"]["strict"] is True
    assert field["json_schema"]["schema"]["additionalProperties"] is False


@pytest.mark.parametrize("provider", [{}, {"structured": False}])
def test_a_server_of_which_nothing_is_known_gets_the_schema_in_the_prompt(
    engine: Engine, server: ModelServer, provider: dict[str, Any]
) -> None:
    server.script.when(lambda _: True, refuses)

    run = configured(engine, server, **provider).finish(GRAPH)

    assert run.output == "billing"
    (request,) = server.requests
    assert HINT in request.text


@pytest.mark.parametrize(
    "change",
    [
        ("    type: llm\n", "    type: llm\n    structured: prompt\n"),
        ("model: home:m\n", "model: home:m\nstructured: prompt\n"),
        ("      type: object\n", ""),
    ],
)
def test_a_graph_can_have_it_in_the_prompt(
    home: Engine, server: ModelServer, change: tuple[str, str]
) -> None:
    server.script.when(lambda _: True, refuses)

    assert home.finish(GRAPH.replace(*change)).output == "billing"

    assert [HINT in request.text for request in server.requests] == [True]


def test_native_is_sent_in_any_case(engine: Engine, server: ModelServer) -> None:
    server.script.add(fails(400, "response_format: no"), says("3"))
    graph = """
model: home:m
structured: native
start: count
nodes:
  count:
    type: llm
    prompt: "How many?"
    output_schema: {type: integer}
    state_updates: {said: "{{output}}"}
    next: done
  done: {type: end, output: "{{said}}"}
"""
    engine = configured(engine, server)

    runs = [engine.finish(graph) for _ in range(2)]

    assert [run.output for run in runs] == [
        "LLM node failed: HTTP 400: response_format: no",
        "3",
    ]
    assert [HINT in request.text for request in server.requests] == [False, False]
    assert ["response_format" in request.body for request in server.requests] == [True, True]


def test_a_server_that_refuses_the_field_is_asked_once_more_and_then_without_it(
    home: Engine, server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script.when(lambda _: True, refuses)

    with caplog.at_level(logging.WARNING):
        runs = [home.finish(GRAPH) for _ in range(20)]

    assert {run.output for run in runs} == {"billing"}
    assert len(server.requests) == 21
    assert len([each for each in caplog.records if "response_format" in each.message]) == 1


def test_functions_and_schemas_go_together_only_if_the_author_says_so(
    home: Engine, server: ModelServer
) -> None:
    server.script.when(lambda _: True, says('{"label": "other", "sure": true}'))
    tools = {"tools.sh": "#!/usr/bin/env bash\n# @cmd Look.\nlook() { :; }\n"}
    graph = GRAPH.replace("type: llm\n", "type: llm\n    tools: [look]\n")

    home.finish(graph, tools)
    home.finish(f"structured: native{graph}", tools)

    first, second = server.requests
    assert ("response_format" in first.body, HINT in first.text) == (False, True)
    assert ("response_format" in second.body, HINT in second.text) == (True, False)
    assert first.body["tools"] == second.body["tools"] != []


def test_each_model_of_a_chain_is_told_in_its_own_form(engine: Engine, server: ModelServer) -> None:
    server.when(lambda request: request.body["model"] == "a", fails(401, "no key"))
    server.script.when(lambda _: True, enforces)
    known, unknown = ({"api_base": server.base_url, "structured": it} for it in (True, False))
    engine.configure(
        models={
            "aliases": {"both": ["unknown:a", "known:b"]},
            "providers": {"known": known, "unknown": unknown},
        }
    )

    assert engine.finish(GRAPH.replace("home:m", "both")).output == "billing"

    first, second = server.requests
    assert ("response_format" in first.body, HINT in first.text) == (False, True)
    assert ("response_format" in second.body, HINT in second.text) == (True, False)


def test_what_does_not_conform_is_extracted_without_the_field(
    home: Engine, server: ModelServer
) -> None:
    server.script.add(says('{"label": "billing"}'), says('{"label": "other", "sure": false}'))

    assert home.finish(GRAPH).output == "other"

    assert ["response_format" in request.body for request in server.requests] == [True, False]
    assert "You extract data from text" in server.requests[1].text


def test_equal_requests_are_cached_in_whatever_form_they_were_answered(
    home: Engine, server: ModelServer
) -> None:
    server.script.when(lambda _: True, refuses)
    graph = f"cache: true{GRAPH}"

    outputs = [home.finish(graph).output for _ in range(2)]

    assert outputs == ["billing", "billing"]
    assert len(server.requests) == 2  # the one that is refused, and the one in the other form


ITEMS = """
model: home:m
start: each
initial_state: {facts: []}
nodes:
  each: {type: map, over: "{{words}}", as: word, branch: look, collect_into: facts, next: done}
  look:
    type: llm
    prompt: "About {{word}}."
    output_schema:
      type: object
      required: [label, about]
      properties:
        label: {enum: [billing, other]}
        about: {type: array, minItems: 1, items: {type: object, required: [n],
          properties: {n: {type: integer, minimum: 0}}}}
  done: {type: end, output: "{{facts[0].about[0].n}}", value: "{{facts}}"}
"""


def test_a_map_collects_objects(home: Engine, server: ModelServer) -> None:
    server.script.when(lambda _: True, enforces)

    run = home.finish(ITEMS, state={"words": [f"word {number}" for number in range(200)]})

    assert run.output == "1"
    assert home.state(run.run_id)["facts"] == [{"label": "billing", "about": [{"n": 1}]}] * 200
    assert len(server.requests) == 200
    assert {"look", "label", "about"}.isdisjoint(home.state(run.run_id))


def test_an_item_whose_answer_does_not_conform_has_failed(
    home: Engine, server: ModelServer
) -> None:
    server.script.when(lambda request: "word 1" in request.text, says("no"))
    server.script.when(lambda _: True, enforces)
    graph = ITEMS.replace("next: done}\n  look", "on_error: collect, next: done}\n  look")

    run = home.finish(graph, state={"words": ["word 0", "word 1", "word 2"]})

    facts = home.state(run.run_id)["facts"]
    assert [sorted(fact) for fact in facts] == [
        ["about", "label"],
        ["error", "item"],
        ["about", "label"],
    ]
    assert "structured output: not valid JSON" in facts[1]["error"]


@pytest.mark.parametrize("recorded", ["native", "prompt"])
def test_a_recording_is_found_in_either_form(
    engine: Engine, server: ModelServer, recorded: str
) -> None:
    server.script.when(lambda _: True, enforces if recorded == "native" else refuses)
    configured(engine, server, structured=recorded == "native")
    made = engine.finish(GRAPH, recorded=True)
    found = engine.client.recordings.recorded(made.run_id)
    recording = engine.client.recordings.put(written(found.entries), "calls")
    configured(engine, server, structured=recorded != "native")

    replayed = engine.finish(GRAPH, replay=recording)

    assert replayed.output == "billing"
    assert len(server.requests) == 1
    (call,) = found.calls
    assert call.request is not None
    assert ("response_format" in call.request) is (recorded == "native")
    assert (HINT in json.dumps(call.request)) is (recorded == "prompt")


@pytest.mark.parametrize(
    "wrong",
    [
        "properties: [a]",
        "properties: {a: {}}, required: 3",
        "properties: {}, required: [], $defs: [x]",
    ],
)
def test_what_is_no_schema_fails_the_node(engine: Engine, server: ModelServer, wrong: str) -> None:
    server.script.add(says("{}"))

    run = engine.finish(
        f"""
        model: openai:m
        settings: {{validate_before_run: false}}
        start: ask
        nodes:
          ask:
            type: llm
            prompt: p
            output_schema: {{type: object, {wrong}}}
            state_updates: {{why: "{{{{output}}}}"}}
            next: z
          z: {{type: end, output: "{{{{why}}}}"}}
        """
    )

    assert str(run.output).startswith("LLM node failed: output_schema: ")
