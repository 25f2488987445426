"""Calls of Python tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool_calls import ToolBundle


@pytest.fixture
def bundle(tmp_path: Path) -> ToolBundle:
    return ToolBundle(tmp_path)


def python(body: str, signature: str = "", before: str = "") -> str:
    """A tool file whose `run` has that signature and body."""
    return f'{before}\ndef run({signature}):\n    """Does it."""\n    {body}\n'


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ("'text é ❤'", {"output": "text é ❤"}),
        ("'[1, 2]'", [1, 2]),
        ("7", 7),
        ("1.5", 1.5),
        ("True", True),
        ("{'k': [1, None, 'é']}", {"k": [1, None, "é"]}),
        ("[]", []),
        ("None", "DONE"),
        ("''", "DONE"),
        ("__import__('pathlib').PurePath('a/b')", {"output": "a/b"}),
        ("{'when': __import__('datetime').date(2026, 1, 2)}", {"when": "2026-01-02"}),
        ("float('nan')", {"output": "NaN"}),
    ],
)
def test_what_is_returned_is_the_result(bundle: ToolBundle, result: str, value: Any) -> None:
    assert bundle.value(bundle.tool(python(f"return {result}"), "demo.py")) == value


def test_arguments_come_by_name_and_with_their_types(bundle: ToolBundle) -> None:
    tool = bundle.tool(
        python("return [a, b, c, d]", "a: str, b: dict, *, c: int = 3, d: list | None"), "demo.py"
    )

    assert bundle.value(tool, {"b": {"k": None}, "a": "x\0\ud800"}) == [
        "x\0\ud800",
        {"k": None},
        3,
        None,
    ]


def test_an_optional_argument_behind_a_decorator_may_be_left_out(bundle: ToolBundle) -> None:
    before = """
import functools
def loudly(function):
    @functools.wraps(function)
    def louder(**arguments):
        return function(**arguments).upper()
    return louder
@loudly"""
    tool = bundle.tool(python("return f'{a} {b}'", "a: str, b: str | None", before), "demo.py")

    assert bundle.value(tool, {"a": "x"}) == {"output": "X NONE"}


def test_an_async_function_runs_to_its_end(bundle: ToolBundle) -> None:
    source = '''
import asyncio
async def run(a: str):
    """Waits."""
    await asyncio.sleep(0)
    return {"a": a}
'''

    assert bundle.value(bundle.tool(source, "demo.py"), {"a": "x"}) == {"a": "x"}


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("yield from (1, 2)", [1, 2]),
        ("return {3, 1, 2}", [1, 2, 3]),
        ("return frozenset({'b', 1})", ["b", 1]),
        ("return (1, (2,))", [1, [2]]),
        ("return map(str, [1])", ["1"]),
        ("return {'a': {2, 1}, 'b': (n for n in 'xy')}", {"a": [1, 2], "b": ["x", "y"]}),
    ],
)
def test_collections_are_lists(bundle: ToolBundle, body: str, value: Any) -> None:
    assert bundle.value(bundle.tool(python(body), "demo.py")) == value


def test_an_async_generator_is_a_list(bundle: ToolBundle) -> None:
    source = '''
async def run():
    """Yields."""
    yield "a"
    yield "b"
'''

    assert bundle.value(bundle.tool(source, "demo.py")) == ["a", "b"]


def test_a_byte_order_mark_is_no_part_of_a_result(bundle: ToolBundle) -> None:
    body = "open(__import__('os').environ['LLM_OUTPUT'], 'w').write('\\ufeff{\"k\": 1}')"

    assert bundle.value(bundle.tool(python(body), "demo.py")) == {"k": 1}


def test_a_function_may_write_the_result_itself(bundle: ToolBundle) -> None:
    body = "open(__import__('os').environ['LLM_OUTPUT'], 'w').write('{\"k\": 1}')"

    assert bundle.value(bundle.tool(python(body), "demo.py")) == {"k": 1}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"a": 1, "z": 2}, "error: unknown argument 'z'; there are: a"),
        ({}, "error: missing required argument 'a'"),
    ],
)
def test_wrong_names_fail_the_call(
    bundle: ToolBundle, arguments: dict[str, Any], error: str
) -> None:
    tool = bundle.tool(python("return a", "a: int"), "demo.py")

    assert bundle.value(tool, arguments) == {
        "tool_call_error": "demo: the call was refused",
        "stderr": error,
    }


@pytest.mark.parametrize(
    ("annotation", "value", "error"),
    [
        ("int", "1", "argument 'a' must be of type integer, got \"1\""),
        ("int", True, "argument 'a' must be of type integer, got true"),
        ("float", "1.5", "argument 'a' must be of type number, got \"1.5\""),
        ("str", {"x": 1}, "argument 'a' must be of type string, got {\"x\":1}"),
        ("str", None, "argument 'a' must be of type string, got null"),
        ("bool", "yes", "argument 'a' must be of type boolean, got \"yes\""),
        ("list[int]", [1, "2"], "argument 'a'[1] must be of type integer, got \"2\""),
        ("dict", [1], "argument 'a' must be of type object, got [1]"),
        ("Literal['x', 'y']", "z", 'argument \'a\' must be one of "x", "y", got "z"'),
        ("int", "x" * 500, "argument 'a' must be of type integer, got \"" + "x" * 99 + "…"),
    ],
)
def test_a_value_that_was_not_declared_is_refused_before_anything_runs(
    bundle: ToolBundle, annotation: str, value: Any, error: str
) -> None:
    body = "open('ran', 'w')"
    tool = bundle.tool(
        python(body, f"a: {annotation}", before="from typing import Literal"), "demo.py"
    )

    assert bundle.value(tool, {"a": value}) == {
        "tool_call_error": "demo: the call was refused",
        "stderr": f"error: {error}",
    }
    assert not list(bundle.context.workdir.glob("*"))


def test_null_stands_for_an_optional_argument_left_out(bundle: ToolBundle) -> None:
    tool = bundle.tool(python("return str(a)", "a: int | None = None"), "demo.py")

    assert bundle.value(tool, {"a": None}) == {"output": "None"}


def test_an_exception_is_a_failure_with_its_traceback(bundle: ToolBundle) -> None:
    value = bundle.value(bundle.tool(python("print('so far'); raise KeyError('k')"), "demo.py"))

    assert value["tool_call_error"] == "demo: exit code 1"
    assert value["stdout"] == "so far\n"
    assert value["stderr"].splitlines()[1].endswith('demo.py", line 4, in run')
    assert value["stderr"].endswith("KeyError: 'k'\n")


def test_a_tool_finds_what_lies_beside_it(bundle: ToolBundle) -> None:
    (bundle.tools / "call.py").write_text("WHO = 'a helper'")
    tool = bundle.tool(python("return WHO", before="from call import WHO"), "demo.py")

    assert bundle.value(tool) == {"output": "a helper"}


def test_a_class_of_the_file_finds_its_module(bundle: ToolBundle) -> None:
    before = """
from __future__ import annotations
from dataclasses import dataclass, asdict
@dataclass
class Point:
    x: int
"""
    tool = bundle.tool(python("return asdict(Point(1))", before=before), "demo.py")

    assert bundle.value(tool) == {"x": 1}


def test_lines_are_narrated_while_the_tool_runs(bundle: ToolBundle) -> None:
    # Ends only once the line was heard of outside.
    body = "print('working')\n    while not os.path.exists('heard'): pass"
    tool = bundle.tool(python(body, before="import os"), "demo.py")
    heard: list[str] = []

    def hear(line: str) -> None:
        heard.append(line)
        (bundle.context.workdir / "heard").touch()

    assert bundle.value(tool, narrate=hear) == "DONE"
    assert heard == ["working"]


@pytest.mark.parametrize("where", ["work", "bundle/agents/tester"])
def test_a_virtual_environment_supplies_the_interpreter(
    bundle: ToolBundle, tmp_path: Path, where: str
) -> None:
    interpreter = tmp_path / where / ".venv" / "bin" / "python3"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text(f'#!/bin/sh\nINTERPRETER="$0" exec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    tool = bundle.tool(python("return os.environ['INTERPRETER']", before="import os"), "demo.py")

    assert bundle.value(tool) == {"output": str(interpreter)}


def test_functions_of_an_agent_are_called_by_their_own_names(bundle: ToolBundle) -> None:
    functions = bundle.own('def Say_Hi(who: str):\n    """Greets."""\n    return who\n', "tools.py")

    assert bundle.value(functions["say_hi"], {"who": "me"}) == {"output": "me"}
