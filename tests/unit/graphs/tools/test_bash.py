"""Functions of bash tool files."""

from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.tools.function import BashVariable, Choices
from sleipnir.graphs.tools.reader import ToolFile, read_tool_file

TEXTS = {"type": "array", "items": {"type": "string"}}


def read(tmp_path: Path, text: str, name: str = "tools.sh") -> ToolFile:
    (tmp_path / name).write_text(text)
    return read_tool_file(tmp_path / name, own=name == "tools.sh")


def with_annotation(tmp_path: Path, annotation: str) -> ToolFile:
    """A tool with one function that has this annotation."""
    return read(tmp_path, f"# @cmd Do\n# {annotation}\ndo_it() {{ :; }}\n")


def problems(found: ToolFile) -> list[str]:
    return [f"{finding.line}: {finding.code} {finding.message}" for finding in found.findings]


def test_a_global_tool_offers_main_under_its_own_name(tmp_path: Path) -> None:
    text = "#!/bin/bash\nset -e\n# @describe Tells the time\n# @option --zone\nmain() { date; }\n"

    found = read(tmp_path, text, "tell-Time.sh")

    (function,) = found.functions
    assert (function.name, function.entry, function.line) == ("tell_Time", "main", 3)
    assert (function.description, function.language) == ("Tells the time", "bash")
    assert list(function.parameters["properties"]) == ["zone"]


def test_commands_of_a_global_tool_stand_instead_of_main(tmp_path: Path) -> None:
    text = "# @describe Jobs\n# @cmd List\nlist-all() { :; }\nmain() { :; }\n"

    found = read(tmp_path, text, "jobs.sh")

    assert [(f.name, f.entry, f.line) for f in found.functions] == [("list_all", "list-all", 2)]


def test_each_function_after_a_cmd_is_offered(tmp_path: Path) -> None:
    text = (
        "# @cmd One\none() { :; }\nhelper() { :; }\n\n#@cmd Two\n\nfunction two {\n:\n}\n"
        "# @cmd Hidden\n_hidden() { :; }\n# @cmd\nfunction _instructions() { :; }\n"
    )

    found = read(tmp_path, text)

    assert [function.name for function in found.functions] == ["one", "two"]
    assert found.instructions is not None
    assert found.findings == ()


def test_instructions_need_no_annotation(tmp_path: Path) -> None:
    found = read(tmp_path, "# @env TOKEN!\n_instructions() { :; }\n")

    assert found.functions == ()
    assert found.instructions is not None
    assert found.instructions.bash.variables == (BashVariable("TOKEN", required=True),)


def test_what_stands_before_the_first_cmd_belongs_to_all(tmp_path: Path) -> None:
    text = (
        "# @meta require-tools git, jq\n# @env KEY=x the key\n# @option --both!\n"
        "# @cmd One\n# @option --first\n# @meta require-tools curl,git\none() { :; }\n"
        "# @cmd Two\n# @option --both <INT>\ntwo() { :; }\n"
    )

    one, two = read(tmp_path, text).functions

    assert list(one.parameters["properties"]) == ["both", "first"]
    assert two.parameters["properties"] == {"both": {"type": "integer"}}
    assert "required" not in two.parameters
    assert (one.bash.programs, two.bash.programs) == (("git", "jq", "curl"), ("git", "jq"))
    assert two.bash.variables == (BashVariable("KEY", default="x"),)


def test_comment_lines_continue_the_text_of_an_annotation(tmp_path: Path) -> None:
    text = "# @cmd Do it\n#   slowly\n#\n# @flag --loud Be\n# loud\n\n# no more\ndo_it() { :; }\n"

    (function,) = read(tmp_path, text).functions

    assert function.description == "Do it\n  slowly"
    loud = {"type": "boolean", "description": "Be\nloud"}
    assert function.parameters["properties"] == {"loud": loud}


@pytest.mark.parametrize(
    ("annotation", "schema", "required"),
    [
        ("@option --a-name  The text", {"type": "string", "description": "The text"}, False),
        ("@option -x --a-name! <FILE>", {"type": "string"}, True),
        (
            "@option --a-name=3 <INT> How many",
            {"type": "integer", "description": "How many"},
            False,
        ),
        ('@option --a-name="a b" x', {"type": "string", "description": "x"}, False),
        ("@option --a-name=`now`", {"type": "string"}, False),
        ("@option --a-name! <NUM>", {"type": "number"}, True),
        ("@option --a-name* <INT>", TEXTS, False),
        ("@option --a-name+", TEXTS, True),
        ("@option --a-name*,", TEXTS, False),
        ("@option --a-name <A> <B>", TEXTS, False),
        ("@option --a-name <A+>", TEXTS, False),
        ("@option --a-name[a|b]", {"type": "string", "enum": ["a", "b"]}, False),
        ("@option --a-name![a|b]", {"type": "string", "enum": ["a", "b"]}, True),
        ("@option --a-name[=a|b]", {"type": "string", "enum": ["a", "b"]}, False),
        (
            "@option --a-name+,[a|b]",
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            True,
        ),
        ("@option --a-name[`list`]", {"type": "string"}, False),
        ("@option --a-name $5 at most", {"type": "string", "description": "$5 at most"}, False),
        ("@flag -v --a-name", {"type": "boolean"}, False),
        ("@flag --a-name*", {"type": "boolean"}, False),
        ("@arg a-name! What", {"type": "string", "description": "What"}, True),
        ("@arg a-name~ The rest", TEXTS | {"description": "The rest"}, False),
    ],
)
def test_an_annotation_becomes_a_property(
    annotation: str, schema: dict[str, Any], required: bool, tmp_path: Path
) -> None:
    found = with_annotation(tmp_path, annotation)

    assert found.findings == ()
    expected: dict[str, Any] = {"type": "object", "properties": {"a_name": schema}}
    assert found.functions[0].parameters == expected | (
        {"required": ["a_name"]} if required else {}
    )


@pytest.mark.parametrize(
    ("annotation", "field", "value"),
    [
        ("@option --x", "default", None),
        ('@option --x=""', "default", ""),
        ("@option --x=a|b", "default", "a|b"),
        ("@option --x='a b' text", "default", "a b"),
        ("@option --x[=a|b]", "default", "a"),
        ("@option --x=`today`", "default_function", "today"),
        ("@option --x*,", "separator", ","),
        ("@option --x+:[a|b]", "separator", ":"),
        ("@option --x[a|b]", "choices", Choices(("a", "b"))),
        ("@option --x[`list`]", "choices", Choices(function="list")),
        ("@option --x[?`list`]", "choices", Choices(function="list", checked=False)),
        ("@option --x <A> <B+>", "notations", ("A", "B")),
        ("@option -x", "key", "x"),
        ("@flag --x*", "repeated", True),
        ("@arg x~", "takes_rest", True),
    ],
)
def test_what_a_call_is_checked_against_is_kept(
    annotation: str, field: str, value: object, tmp_path: Path
) -> None:
    (parameter,) = with_annotation(tmp_path, annotation).functions[0].bash.parameters

    assert getattr(parameter, field) == value


@pytest.mark.parametrize(
    ("annotation", "variable"),
    [
        ("@env KEY", BashVariable("KEY")),
        ("@env KEY! The key", BashVariable("KEY", required=True)),
        ("@env KEY=`find`", BashVariable("KEY", default_function="find")),
        ("@env KEY[=a|b]", BashVariable("KEY", default="a", choices=Choices(("a", "b")))),
    ],
)
def test_a_variable_is_no_parameter(
    annotation: str, variable: BashVariable, tmp_path: Path
) -> None:
    (function,) = with_annotation(tmp_path, annotation).functions

    assert function.bash.variables == (variable,)
    assert function.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "annotation", ["@flag --help", "@flag -V --version", "@alias d", "@meta x y"]
)
def test_some_annotations_say_nothing_to_a_model(annotation: str, tmp_path: Path) -> None:
    found = with_annotation(tmp_path, annotation)

    assert found.findings == ()
    assert found.functions[0].parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("@optoin --x", "@optoin: there is no such annotation"),
        ("@option x", "@option: expected -s or --long, got 'x'"),
        ("@option --x?", "@option: 'x': unknown modifier '?'"),
        ("@option --x!=1", "@option: 'x': unknown modifier '!=1'"),
        ("@option --x=`broken", "@option: 'x': unknown modifier '=`broken'"),
        ("@option --x~[a|b]", "@option: 'x': unknown modifier '~[a|b]'"),
        ("@option --x $$ <X>", "@option: 'x': '$$' is not supported"),
        ("@option --x <A*>", "@option: 'x': '<A*>' is not supported"),
        ("@option --x <A+> <B>", "@option: 'x': only the last notation may end in '+'"),
        ("@flag --x!", "@flag: 'x': a flag takes no modifier but '*'"),
        ("@flag --x*,", "@flag: 'x': a flag takes no modifier but '*'"),
        ("@arg", "@arg: expected a name, got ''"),
        ("@env KEY*", "@env: 'KEY': a variable takes no modifier '*'"),
        ("@env 1=2", "@env: expected the name of a variable, got '1=2'"),
        ("@option --x\n# @flag -x", "@flag: 'x' is declared twice"),
    ],
)
def test_an_annotation_of_no_kind_is_an_error(
    annotation: str, message: str, tmp_path: Path
) -> None:
    found = with_annotation(tmp_path, annotation)

    assert problems(found) == [f"{2 + annotation.count(chr(10))}: E605 {message}"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("tools.sh", "\n# @cmd\nf() { :; }\n", ["2: E604 function 'f' has no description"]),
        ("tool.sh", "main() { :; }\n", ["1: E604 function 'tool' has no description"]),
        ("tool.sh", "# @describe D\n", ["1: E603 a global tool needs a function 'main' or a @cmd"]),
        ("tools.sh", "# @cmd Lost\n", ["1: E603 no function follows this @cmd"]),
        (
            "tools.sh",
            "# @cmd D\na::b() { :; }\n",
            [
                "1: E606 'a::b' is not a valid function name: "
                "expected up to 64 letters, digits, '_' and '-'"
            ],
        ),
        (
            "tools.sh",
            "# @cmd D\ntodo__x() { :; }\n",
            ["1: E606 function 'todo__x': names in 'todo__' are reserved"],
        ),
        (
            "tools.sh",
            "# @cmd D\njob__a() { :; }\n# @cmd D\nmemory__a() { :; }\n"
            "# @cmd D\nmcp_read_a() { :; }\n# @cmd D\nmcp_prompt_a() { :; }\n"
            "# @cmd D\nmcp_a() { :; }\n",
            [
                "1: E606 function 'job__a': names in 'job__' are reserved",
                "3: E606 function 'memory__a': names in 'memory__' are reserved",
                "5: E606 function 'mcp_read_a': names in 'mcp_read_' are reserved",
                "7: E606 function 'mcp_prompt_a': names in 'mcp_prompt_' are reserved",
            ],
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    name: str, text: str, expected: list[str], tmp_path: Path
) -> None:
    assert problems(read(tmp_path, text, name)) == expected


def test_what_was_once_generated_is_passed_over(tmp_path: Path) -> None:
    text = (
        "# @cmd Do\ndo_it() { :; }\n# ARGC-BUILD {\n# @cmd Again\n# @wrong\ndo_it2() { :; }\n"
        "# ARGC-BUILD }\n# @cmd More\nmore() { :; }\n"
    )

    found = read(tmp_path, text)

    assert [(function.name, function.line) for function in found.functions] == [
        ("do_it", 1),
        ("more", 8),
    ]
    assert found.findings == ()
