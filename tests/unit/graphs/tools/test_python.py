"""Functions of Python tool files."""

from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.tools.function import BashDetails, BashVariable
from sleipnir.graphs.tools.reader import ToolFile, read_tool_file

ARRAY_OF_TEXTS = {"type": "array", "items": {"type": "string"}}


def read(tmp_path: Path, text: str, name: str = "tools.py") -> ToolFile:
    (tmp_path / name).write_text(text)
    return read_tool_file(tmp_path / name, own=name == "tools.py")


def parameters(tmp_path: Path, signature: str, arguments: str = "") -> dict[str, Any]:
    """The schema of a function with these parameters."""
    found = read(tmp_path, f'def f({signature}):\n    """Do.\n\n    Args:\n{arguments}\n    """\n')
    assert found.findings == ()
    return dict(found.functions[0].parameters)


def problems(found: ToolFile) -> list[str]:
    return [f"{finding.line}: {finding.code} {finding.message}" for finding in found.findings]


def test_a_global_tool_offers_run_under_its_own_name(tmp_path: Path) -> None:
    found = read(tmp_path, 'def run():\n    "Does it."\ndef other(): ...\n', "My-Tool 2.py")

    (function,) = found.functions
    assert (function.name, function.entry, function.line) == ("my_tool_2", "run", 1)
    assert (function.description, function.own, function.language) == ("Does it.", False, "python")


def test_an_agent_offers_every_public_function(tmp_path: Path) -> None:
    text = (
        'import unheard_of\n@decorated\ndef Search_Web():\n    "S."\n'
        'async def later():\n    "L."\ndef _hidden(): ...\nclass C:\n    def inside(self): ...\n'
    )

    found = read(tmp_path, text)

    names = [(function.name, function.entry, function.line) for function in found.functions]
    assert names == [("search_web", "Search_Web", 3), ("later", "later", 5)]
    assert (found.findings, found.instructions) == ((), None)


def test_instructions_are_known_but_not_offered(tmp_path: Path) -> None:
    found = read(tmp_path, "def _instructions(): ...\n")

    assert found.functions == found.findings == ()
    assert found.instructions is not None
    assert found.instructions.entry == "_instructions"


def test_a_file_that_begins_with_an_underscore_offers_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "def helper(): ...\n", "_lib.py") == ToolFile(tmp_path / "_lib.py")


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("", {"type": "string"}),
        (": str", {"type": "string"}),
        (": Any", {"type": "string"}),
        (": Thing", {"type": "string"}),
        (": int", {"type": "integer"}),
        (": float", {"type": "number"}),
        (": bool", {"type": "boolean"}),
        (": list", ARRAY_OF_TEXTS),
        (": typing.List", ARRAY_OF_TEXTS),
        (": set[int]", {"type": "array", "items": {"type": "integer"}}),
        (
            ": list[list[float]]",
            {"type": "array", "items": ARRAY_OF_TEXTS | {"items": {"type": "number"}}},
        ),
        (": tuple[bool, ...]", {"type": "array", "items": {"type": "boolean"}}),
        (": tuple[int, str]", ARRAY_OF_TEXTS),
        (": dict", {"type": "object"}),
        (": Mapping[str, int]", {"type": "object"}),
        (': Literal["a", "b"]', {"type": "string", "enum": ["a", "b"]}),
        (": Literal[1, -2]", {"type": "integer", "enum": [1, -2]}),
        (': Literal[1, "b"]', {"type": "string", "enum": ["1", "b"]}),
        (": Literal[NAMES]", {"type": "string"}),
        (": int | str", {"type": "integer"}),
        (": Union[bool, str]", {"type": "boolean"}),
        (': "list[int]"', {"type": "array", "items": {"type": "integer"}}),
        (': "not a type!"', {"type": "string"}),
    ],
)
def test_an_annotation_becomes_a_schema(
    annotation: str, schema: dict[str, Any], tmp_path: Path
) -> None:
    found = parameters(tmp_path, f"x{annotation}")

    assert found == {"type": "object", "properties": {"x": schema}, "required": ["x"]}


@pytest.mark.parametrize(
    "parameter",
    [
        *("x: Optional[int]", "x: int | None", "x: None | int", "x: Union[int, None]"),
        *('x: "int | None"', "x: Literal[1, None]", "x: int = 3", "*, x: int = None"),
    ],
)
def test_what_may_be_left_out_is_not_required(parameter: str, tmp_path: Path) -> None:
    found = parameters(tmp_path, parameter)

    assert found["properties"]["x"]["type"] == "integer"
    assert "required" not in found


def test_a_docstring_describes_and_types_arguments(tmp_path: Path) -> None:
    arguments = (
        "        query: what to find,\n            in plain words\n        count (int): how many\n"
        "        tags (list[str], optional):\n        given (int): typed above\n"
        "        no entry\n        unknown: of no parameter"
    )

    found = parameters(tmp_path, "query, count, tags, given: bool", arguments)

    assert found == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to find, in plain words"},
            "count": {"type": "integer", "description": "how many"},
            "tags": ARRAY_OF_TEXTS,
            "given": {"type": "boolean", "description": "typed above"},
        },
        "required": ["query", "count", "given"],
    }


@pytest.mark.parametrize("header", ["Args:", "Returns:", "Raises:"])
def test_the_description_ends_at_the_first_header(header: str, tmp_path: Path) -> None:
    text = (
        f'def f():\n    """Do it.\n\n    Args: no header.\n\n    {header}\n        x: y\n    """\n'
    )

    assert read(tmp_path, text).functions[0].description == "Do it.\n\nArgs: no header."


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("tools.py", "\ndef broken(:\n", ["2: E603 syntax error: invalid syntax"]),
        (
            "tools.py",
            "x = '\0'",
            ["1: E603 syntax error: source code string cannot contain null bytes"],
        ),
        (
            "tools.py",
            f"def f(x: {'a | ' * 2000} b): ...",
            ["1: E603 cannot read the tool file: it is nested too deeply"],
        ),
        ("tool.py", "x = 1\n", ["1: E603 a global tool needs a function 'run'"]),
        ("tools.py", "def f(): ...\n", ["1: E604 function 'f' has no description"]),
        (
            "tools.py",
            'def f():\n    """\n    Args:\n        x: y\n    """\n',
            ["1: E604 function 'f' has no description"],
        ),
        (
            "tools.py",
            'def f(a, /,\n      *b, **c):\n    "Do."\n',
            [
                "1: E605 function 'f': positional-only parameter 'a' is not supported",
                "2: E605 function 'f': parameter '*b' is not supported",
                "2: E605 function 'f': parameter '**c' is not supported",
            ],
        ),
        (
            "tools.py",
            'def user__ask():\n    "Ask."\n',
            ["1: E606 function 'user__ask': names in 'user__' are reserved"],
        ),
        (
            f"{'x' * 65}.py",
            'def run():\n    "Do."\n',
            [
                f"1: E606 '{'x' * 65}' is not a valid function name: expected "
                "up to 64 letters, digits, '_' and '-'"
            ],
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    name: str, text: str, expected: list[str], tmp_path: Path
) -> None:
    assert problems(read(tmp_path, text, name)) == expected


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_bytes(b"\xff\xfe")

    found = read_tool_file(tmp_path / "tools.py", own=True)

    assert [finding.code for finding in found.findings] == ["E603"]


def test_comments_say_what_the_file_needs(tmp_path: Path) -> None:
    text = (
        "# @env KEY!  The key\n# @env URL=http://x  Where\n# @meta require-tools git\n# @wat\n"
        'def f():\n    "F."\ndef g():\n    "G."\n'
    )

    found = read(tmp_path, text)

    for function in found.functions:
        variables = (BashVariable("KEY", required=True), BashVariable("URL", default="http://x"))
        assert function.bash == BashDetails(variables=variables, programs=("git",))
    assert found.findings == ()


def test_a_need_that_is_no_variable_is_an_error(tmp_path: Path) -> None:
    found = read(tmp_path, "\n# @env KEY*\n")

    assert problems(found) == ["2: E605 @env: 'KEY': a variable takes no modifier '*'"]


def test_what_python_warns_of_is_no_error(tmp_path: Path) -> None:
    found = read(tmp_path, 'def f():\n    "F."\n    return "\\d"\n')

    assert found.findings == ()


def test_a_parameter_may_have_another_name_that_is_not_shown(tmp_path: Path) -> None:
    text = '# @meta alias words=text\ndef run(text: str):\n    "R."\n'

    (function,) = read(tmp_path, text, "tool.py").functions

    assert list(function.parameters["properties"]) == function.parameters["required"] == ["text"]
    assert function.bash == BashDetails(aliases={"words": "text"})
