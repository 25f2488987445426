"""Functions of TypeScript tool files."""

from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.tools.function import BashDetails, BashVariable
from sleipnir.graphs.tools.reader import ToolFile, read_tool_file

TEXTS = {"type": "array", "items": {"type": "string"}}


def read(tmp_path: Path, text: str, name: str = "tools.ts") -> ToolFile:
    (tmp_path / name).write_text(text)
    return read_tool_file(tmp_path / name, own=name == "tools.ts")


def problems(found: ToolFile) -> list[str]:
    return [f"{finding.line}: {finding.code} {finding.message}" for finding in found.findings]


def test_a_global_tool_offers_run_under_its_own_name(tmp_path: Path) -> None:
    text = (
        "/** Does it. */\nexport async function run() {}\n/** O. */\nexport function other() {}\n"
    )

    (function,) = read(tmp_path, text, "my-tool.ts").functions

    assert (function.name, function.entry, function.line) == ("my_tool", "run", 2)
    assert (function.description, function.language) == ("Does it.", "typescript")


def test_an_agent_offers_exported_public_functions(tmp_path: Path) -> None:
    text = (
        "/** F. */\nexport function findIt<T extends { a: (b: T) => void }>(x: string) {}\n"
        "/** D. */ export default async function second(): Promise<{ a: 1 }> { return { a: 1 } }\n"
        "function helper() {}\nexport const arrow = () => {};\nexport { helper };\n"
        "export function _hidden() {}\nexport function _instructions() {}\n"
        "namespace N { export function inside() {} }\n"
    )

    found = read(tmp_path, text)

    names = [(function.name, function.line, function.description) for function in found.functions]
    assert names == [("findIt", 2, "F."), ("second", 3, "D.")]
    assert found.instructions is not None
    assert found.findings == ()


def test_strings_comments_and_expressions_hide_nothing(tmp_path: Path) -> None:
    text = (
        "// it's { fine\n/* and ( this */\nconst a = \"{\", b = '(', c = `${a ? `[` : '{'} {`;\n"
        'const d = /["{(]/g, e = 4 / 2 / 1, f = a.match(/[/{]/);\n'
        "/** Found. */\nexport function found() {}\n"
    )

    assert [function.name for function in read(tmp_path, text).functions] == ["found"]


@pytest.mark.parametrize(
    ("parameter", "schema"),
    [
        ("x", {"type": "string"}),
        ("x: string", {"type": "string"}),
        ("x: any", {"type": "string"}),
        ("x: Thing", {"type": "string"}),
        ("x: Record<string, number>", {"type": "string"}),
        ("x: { a: number, b: number }", {"type": "string"}),
        ("x: (a: string, b: number) => void", {"type": "string"}),
        ("x: number", {"type": "number"}),
        ("x: boolean", {"type": "boolean"}),
        ("x: string[]", TEXTS),
        ("x: Array<number>", {"type": "array", "items": {"type": "number"}}),
        ("x: Array<string[]>", {"type": "array", "items": TEXTS}),
        ("x: (string | number)[]", TEXTS),
        ("x: \"a\" | 'b'", {"type": "string", "enum": ["a", "b"]}),
        ("x: | 'a' | 'b'", {"type": "string", "enum": ["a", "b"]}),
        ("x: number | string", {"type": "number"}),
    ],
)
def test_a_type_becomes_a_schema(parameter: str, schema: dict[str, Any], tmp_path: Path) -> None:
    found = read(tmp_path, f"/** F. */\nexport function f({parameter}) {{}}\n")

    expected = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    assert [function.parameters for function in found.functions] == [expected]


@pytest.mark.parametrize(
    "parameter",
    [
        *("x?: number", "x: number | null", "x: undefined | number", "x: number = f(1, 2),"),
        "x: number | null = null",
    ],
)
def test_what_may_be_left_out_is_not_required(parameter: str, tmp_path: Path) -> None:
    found = read(tmp_path, f"/** F. */\nexport function f({parameter}) {{}}\n")

    expected = {"type": "object", "properties": {"x": {"type": "number"}}}
    assert [function.parameters for function in found.functions] == [expected]


def test_the_block_before_a_function_describes_it(tmp_path: Path) -> None:
    text = """
/** Of nothing. */

/**
 * Finds things.
 *   - by name, or a@b
 *
 * @param query - what to find,
 *   in words
 * @param {number} [limit=3] how many
 * @returns them
 */
export function find(query: string, limit = 3) {}
"""

    (function,) = read(tmp_path, text).functions

    assert function.description == "Finds things.\n  - by name, or a@b"
    assert function.parameters["properties"] == {
        "query": {"type": "string", "description": "what to find, in words"},
        "limit": {"type": "string", "description": "how many"},
    }


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "tool.ts",
            "export function other() {}",
            ["1: E603 a global tool needs an exported function 'run'"],
        ),
        (
            "tools.ts",
            "/** F. */\nexport function f(x: string {",
            ["2: E603 function 'f': its parameter list is not closed"],
        ),
        (
            "tools.ts",
            "/** F. */\nconst x = 1;\nexport function f() {}",
            ["3: E604 function 'f' has no description"],
        ),
        (
            "tools.ts",
            "/** F. */\nexport function f(\n  { a }: any,\n  ...b: string[]\n) {}",
            [
                "3: E605 function 'f': a destructured parameter is not supported",
                "4: E605 function 'f': a rest parameter is not supported",
            ],
        ),
        (
            "tools.ts",
            "/** F. */\nexport function $() {}",
            [
                "2: E606 '$' is not a valid function name: "
                "expected up to 64 letters, digits, '_' and '-'"
            ],
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    name: str, text: str, expected: list[str], tmp_path: Path
) -> None:
    assert problems(read(tmp_path, text, name)) == expected


def test_comments_say_what_the_file_needs(tmp_path: Path) -> None:
    text = "// @env KEY!  The key\n// @meta require-tools git\n/** F. */\nexport function f() {}\n"

    (function,) = read(tmp_path, text).functions

    variables = (BashVariable("KEY", required=True),)
    assert function.bash == BashDetails(variables=variables, programs=("git",))
