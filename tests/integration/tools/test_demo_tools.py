"""The demo tools: one of each kind of parameter, from its declaration to the running tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.global_tools import SHIPPED, GlobalTools, shipped


@pytest.fixture
def tools(tmp_path: Path) -> GlobalTools:
    return GlobalTools(tmp_path)


def properties(name: str) -> dict[str, Any]:
    """The schemas of a tool's parameters without their descriptions."""
    declared: dict[str, Any] = shipped(name).parameters["properties"]
    assert all(schema["description"] for schema in declared.values())
    return {
        key: {word: value for word, value in schema.items() if word != "description"}
        for key, schema in declared.items()
    }


def array(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": kind, **more}}


TEXT, WHOLE, NUMBER, BOOLEAN = ({"type": t} for t in ("string", "integer", "number", "boolean"))


# ---- Python

PYTHON = {
    "text": "any",
    "anything": "thing",
    "count": 3,
    "ratio": 0.5,
    "flag": True,
    "colour": "red",
    "level": 2,
    "words": ["a", "b"],
    "numbers": [1, 2],
    "tags": ["x"],
    "scores": [1.5],
    "options": {"a": 1},
    "quoted": [False],
    "described": 4,
}


def test_python_parameters_are_declared_by_their_types() -> None:
    assert properties("demo_py") == {
        "text": TEXT,
        "anything": TEXT,
        "count": WHOLE,
        "ratio": NUMBER,
        "flag": BOOLEAN,
        "colour": {"type": "string", "enum": ["red", "green"]},
        "level": {"type": "integer", "enum": [1, 2, 3]},
        "words": array("string"),
        "numbers": array("integer"),
        "tags": array("string"),
        "scores": array("number"),
        "options": {"type": "object"},
        "quoted": array("boolean"),
        "described": WHOLE,
        "maybe": WHOLE,
        "either": WHOLE,
        "default": TEXT,
        "named": BOOLEAN,
    }
    assert shipped("demo_py").parameters["required"] == list(PYTHON)


def test_a_python_tool_gets_its_arguments(tools: GlobalTools) -> None:
    left_out = {"maybe": None, "either": 0, "default": "as declared", "named": False}

    value = tools.call("demo_py", PYTHON)

    assert value["arguments"] == {**PYTHON, **left_out}


@pytest.mark.parametrize("name", ["demo_py", "demo_sh"])
def test_a_tool_gets_the_variables_of_its_call(
    tools: GlobalTools, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("DEMO_GREETING", "hi")

    value = tools.call(name, PYTHON if name == "demo_py" else BASH, auto_confirm=True)

    variables = value["environment"]
    assert variables["DEMO_GREETING"] == "hi"
    assert variables["AUTO_CONFIRM"] == "true"
    assert (variables["LLM_TOOL_NAME"], variables["LLM_AGENT_NAME"]) == (name, "agent")
    assert {
        *("LLM_OUTPUT", "LLM_ROOT_DIR", "LLM_CONFIG_DIR", "LLM_TOOL_CACHE_DIR"),
        *("LLM_TOOL_DATA_FILE", "LLM_TOOL_RAW_JSON", "LLM_PROMPT_UTILS_FILE"),
    } <= variables.keys()


# ---- bash

BASH = {
    "text": 'a "text"\n\twith \\ all $(sorts)',
    "must_choose": "yes",
    "some": ["one"],
    "joined": ["x", "z"],
    "place": "here",
}


def test_bash_parameters_are_declared_by_their_annotations() -> None:
    colours, tones = ["red", "green"], ["low", "high"]
    assert properties("demo_sh") == {
        **dict.fromkeys(["text", "maybe", "default", "computed"], TEXT),
        "count": WHOLE,
        "ratio": NUMBER,
        "colour": {"type": "string", "enum": colours},
        "size": {"type": "string", "enum": ["small", "large"]},
        "must_choose": {"type": "string", "enum": ["yes", "no"]},
        **dict.fromkeys(["shape", "idea"], TEXT),
        **dict.fromkeys(["words", "some", "listed", "joined"], array("string")),
        "tones": array("string", enum=tones),
        **dict.fromkeys(["pair", "many"], array("string")),
        **dict.fromkeys(["flag", "verbose"], BOOLEAN),
        "place": TEXT,
        "rest": array("string"),
    }
    assert shipped("demo_sh").parameters["required"] == list(BASH)


def test_a_bash_tool_gets_its_arguments_and_its_defaults(tools: GlobalTools) -> None:
    value = tools.call("demo_sh", BASH)

    assert value["arguments"] == {
        **BASH,
        "default": "plain",
        "computed": "computed",
        "size": "small",
    }
    assert value["positionals"] == ["here"]


def test_a_bash_tool_gets_every_kind_of_argument(tools: GlobalTools) -> None:
    given = {
        "count": 3,
        "ratio": 0.5,
        "shape": "circle",
        "idea": "triangle",
        "listed": "a,b",
        "tones": ["low", "high"],
        "pair": ["from", "to"],
        "flag": True,
        "verbose": True,
        "rest": ["and", "so on"],
    }

    value = tools.call("demo_sh", {**BASH, **given})

    texts = {"count": "3", "ratio": "0.5", "flag": "1", "verbose": "1", "listed": ["a", "b"]}
    assert {**given, **texts}.items() <= value["arguments"].items()
    assert value["positionals"] == ["here", "and", "so on"]


@pytest.mark.parametrize(
    "wrong", [{"colour": "blue"}, {"shape": "line"}, {"tones": ["middle"]}, {"unknown": 1}]
)
def test_a_bash_tool_is_not_called_with_what_it_does_not_take(
    tools: GlobalTools, wrong: dict[str, Any]
) -> None:
    (name,) = wrong

    assert name in tools.failure("demo_sh", {**BASH, **wrong})


def test_a_variable_of_a_bash_tool_must_be_one_of_its_choices(
    tools: GlobalTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_MOOD", "grim")

    assert "DEMO_MOOD" in tools.failure("demo_sh", BASH)


# ---- TypeScript


def test_typescript_parameters_are_declared_by_their_types() -> None:
    assert properties("demo_ts") == {
        **dict.fromkeys(["text", "untyped", "named"], TEXT),
        "count": NUMBER,
        "flag": BOOLEAN,
        "colour": {"type": "string", "enum": ["red", "green"]},
        "words": array("string"),
        "numbers": array("number"),
        "nullable": NUMBER,
        "maybe": TEXT,
        "fallback": TEXT,
    }
    required = ["text", "untyped", "named", "count", "flag", "colour", "words", "numbers"]
    assert shipped("demo_ts").parameters["required"] == required


def test_typescript_parameters_arrive_as_declared(tools: GlobalTools, node_modules: Path) -> None:
    (tools.workdir / "node_modules").symlink_to(node_modules)
    given = {"text": "a", "untyped": "b", "named": "c", "count": 1.5, "flag": True}
    given |= {"colour": "red", "words": ["x", "y"], "numbers": [1, 2]}

    result = tools.call("demo_ts", given)

    assert result["arguments"] == {**given, "fallback": "as declared"}
    assert result["environment"]["LLM_TOOL_NAME"] == "demo_ts"


def test_every_shipped_tool_is_used_in_some_test() -> None:
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*_tools.py"))

    shipped = {file.stem for file in SHIPPED.iterdir() if file.is_file()}

    assert {name for name in shipped if f'"{name}"' not in tests} == set()
