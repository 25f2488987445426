"""Calls of bash tools: how arguments reach them, what is refused, and how a file is read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool_calls import ToolBundle

SHOW_ALL = """
# @describe Shows what it gets
{annotations}
main() {{
  for name in ${{!argc_*}}; do
    [[ $name == argc__* ]] || declare -p "$name" >> "$LLM_OUTPUT"
  done
}}
eval "$(argc --argc-eval "$0" "$@")"
"""
NASTY = "a'b\"c $(touch pwned) `touch pwned` ;&|\\ *\n\t%s -n $HOME é ❤\n"


@pytest.fixture
def bundle(tmp_path: Path) -> ToolBundle:
    return ToolBundle(tmp_path)


@pytest.mark.parametrize(
    ("annotation", "value", "shown"),
    [
        ("@option --a", "x y", 'declare -- argc_a="x y"\n'),
        ("@option --a", "", 'declare -- argc_a=""\n'),
        ("@option --a <INT>", 7, 'declare -- argc_a="7"\n'),
        ("@option --a <NUM>", 1.50, 'declare -- argc_a="1.5"\n'),
        ("@option --a", True, 'declare -- argc_a="true"\n'),
        ("@option --a", {"k": [1, "é"]}, 'declare -- argc_a="{\\"k\\":[1,\\"é\\"]}"\n'),
        ("@option --a", ["one"], 'declare -- argc_a="one"\n'),
        ("@option --a*", ["x", 2, [3]], 'declare -a argc_a=([0]="x" [1]="2" [2]="[3]")\n'),
        ("@option --a*", "x", 'declare -a argc_a=([0]="x")\n'),
        ("@option --a*,", "x,y", 'declare -a argc_a=([0]="x" [1]="y")\n'),
        ("@option --a*,", ["x,y"], 'declare -a argc_a=([0]="x,y")\n'),
        ("@option --a <X> <Y>", ["1", "2"], 'declare -a argc_a=([0]="1" [1]="2")\n'),
        ("@option --a~", ["1", "2"], 'declare -a argc_a=([0]="1" [1]="2")\n'),
        ("@flag --a", True, 'declare -- argc_a="1"\n'),
        ("@flag --a*", 3, 'declare -- argc_a="3"\n'),
        ("@arg a", "x", 'declare -- argc_a="x"\n'),
        ("@option --a[=x|y]", "y", 'declare -- argc_a="y"\n'),
    ],
)
def test_a_value_arrives_in_its_variable(
    bundle: ToolBundle, annotation: str, value: Any, shown: str
) -> None:
    assert bundle.output(SHOW_ALL.format(annotations=f"# {annotation}"), {"a": value}) == shown


@pytest.mark.parametrize("annotation", ["@option --a", "@option --a*", "@flag --a", "@arg a"])
@pytest.mark.parametrize("arguments", [{}, {"a": None}])
def test_what_is_left_out_or_null_is_unset(
    bundle: ToolBundle, annotation: str, arguments: dict[str, Any]
) -> None:
    tool = bundle.tool(SHOW_ALL.format(annotations=f"# {annotation}"))

    assert bundle.value(tool, arguments) == "DONE"


def test_false_leaves_a_flag_unset(bundle: ToolBundle) -> None:
    tool = bundle.tool(SHOW_ALL.format(annotations="# @flag --a"))

    assert bundle.value(tool, {"a": False}) == "DONE"


def test_no_text_is_ever_run_as_a_command(bundle: ToolBundle) -> None:
    tool = bundle.tool(
        """
        # @describe Echoes
        # @option --a!
        # @option --b*
        # @arg c
        main() { printf '%s|' "$argc_a" "${argc_b[@]}" "$argc_c" "$@" >> "$LLM_OUTPUT"; }
        """
    )

    value = bundle.value(tool, {"a": NASTY, "b": [NASTY], "c": NASTY})

    assert value == {"output": f"{NASTY}|" * 4}
    assert list(bundle.context.workdir.iterdir()) == []


def test_a_large_value_arrives_whole(bundle: ToolBundle) -> None:
    source = """
    # @describe Measures
    # @option --a!
    main() { echo "${#argc_a}" >> "$LLM_OUTPUT"; }
    """

    assert bundle.value(bundle.tool(source), {"a": "x" * 3_000_000}) == 3_000_000


def test_defaults_are_applied(bundle: ToolBundle) -> None:
    annotations = """
# @option --plain=p
# @option --first[=x|y]
# @option --several*[=s|t]
# @option --asked=`_ask`
# @option --more=`_ask` <A> <B>
_ask() { echo "from a function"; }
"""

    assert bundle.output(SHOW_ALL.format(annotations=annotations)).splitlines() == [
        'declare -- argc_asked="from a function"',
        'declare -- argc_first="x"',
        'declare -a argc_more=([0]="from a function")',
        'declare -- argc_plain="p"',
        'declare -a argc_several=([0]="s")',
    ]


def test_positionals_keep_their_places(bundle: ToolBundle) -> None:
    source = """
    # @describe Positions
    # @option --oo
    # @arg a
    # @arg b
    # @arg rest*
    main() {
      printf '<%s>' "$@" "${argc__positionals[@]}" -- "${argc__args[@]}" >> "$LLM_OUTPUT"
    }
    """

    output = bundle.output(source, {"b": "B", "rest": ["1", "2"], "oo": "O"})

    assert output == "<><B><1><2>" * 2 + "<--><demo.sh><--oo><O><><B><1><2>"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"a": "x", "z": 1}, "unknown argument 'z'; there are: a, b, c, d"),
        ({}, "missing required argument 'a'"),
        ({"a": None}, "missing required argument 'a'"),
        ({"a": "x", "b": "w"}, "argument 'b' must be one of u, v; got 'w'"),
        ({"a": "x", "c": ["u", "w"]}, "argument 'c' must be one of u, v; got 'w'"),
        ({"a": "x", "d": "cow"}, "'d' must be one of cat, dog; got 'cow'"),
        ({"a": "x", "d": "cat\ndog"}, "'d' must be one of cat, dog; got 'cat\ndog'"),
        ({"a": ["x", "y"]}, "argument 'a' takes one value, got 2"),
        ({"a": "x\0y"}, "argument 'a' contains a NUL character, which bash does not support"),
    ],
)
def test_wrong_arguments_fail_the_call_naming_them(
    bundle: ToolBundle, arguments: dict[str, Any], error: str
) -> None:
    annotations = """
# @option --a!
# @option --b[u|v]
# @option --c*[u|v]
# @option --d[`_pets`]
_pets() { printf 'cat\\ndog\\n'; }
"""
    tool = bundle.tool(SHOW_ALL.format(annotations=annotations) + "touch ran")

    value = bundle.value(tool, arguments)

    assert value["tool_call_error"].startswith("demo: ")
    assert value["stderr"].rstrip() == f"error: {error}"
    assert "output" not in value


@pytest.mark.parametrize(
    ("notation", "value"),
    [
        ("INT", "a[$(touch ran)]"),
        ("INT", "1; touch ran"),
        ("INT", 1.5),
        ("INT", "9" * 101),
        ("INT", "1\n2"),
        ("INT", [1]),
        ("INT", {"n": 1}),
        ("INT", True),
        ("NUM", "x[$(touch ran)]"),
        ("NUM", "1e"),
        ("NUM", ""),
    ],
)
def test_what_is_no_number_never_reaches_arithmetic(
    bundle: ToolBundle, notation: str, value: Any
) -> None:
    source = f"""
    # @describe Counts
    # @option --n <{notation}>
    # @option --many* <{notation}>
    main() {{ touch started; echo $((argc_n + argc_many)); }}
    """
    tool = bundle.tool(source)
    wanted = {"INT": "an integer", "NUM": "a number"}[notation]

    for name, given in (("n", value), ("many", [value])):
        if given == [1]:
            continue  # a list of one value stands for the value
        refused = bundle.value(tool, {name: given})

        assert refused["tool_call_error"] == "demo: the call was refused"
        assert refused["stderr"].startswith(f"error: argument '{name}' must be {wanted}, got ")

    assert not list(bundle.context.workdir.glob("*"))


@pytest.mark.parametrize(
    ("notation", "value"),
    [("INT", 7), ("INT", "-7"), ("INT", [7]), ("NUM", 7.25), ("NUM", "1e-3"), ("NUM", ".5")],
)
def test_numbers_are_taken_as_numbers_or_texts(
    bundle: ToolBundle, notation: str, value: Any
) -> None:
    source = f"""
    # @describe Shows
    # @option --n <{notation}>
    main() {{ printf '<%s>' "$argc_n" >> "$LLM_OUTPUT"; }}
    """
    given = value[0] if isinstance(value, list) else value

    assert bundle.output(source, {"n": value}) == f"<{given}>".replace("0.001", "1e-3")


def test_all_violations_are_named_at_once(bundle: ToolBundle) -> None:
    tool = bundle.tool(
        """
        # @describe Demanding
        # @option --a!
        # @env SOME_KEY! of a service
        # @env SOME_MODE[=one|two]
        # @meta require-tools bash,no-such-program
        main() { :; }
        """
    )
    (bundle.tools / ".env").write_text("SOME_MODE=three\n")

    assert bundle.value(tool, {"b": 1})["stderr"].splitlines() == [
        "error: unknown argument 'b'; there are: a",
        "error: missing required argument 'a'",
        "error: missing environment variable SOME_KEY",
        "error: environment variable SOME_MODE must be one of one, two; got 'three'",
        "error: missing program 'no-such-program': it is not on the PATH of this worker",
    ]


def test_an_unchecked_choice_may_be_any_value(bundle: ToolBundle) -> None:
    annotations = "# @option --a[?`_pets`]\n_pets() { echo cat; }"
    tool = bundle.tool(SHOW_ALL.format(annotations=annotations))

    assert bundle.value(tool, {"a": "cow"}) == {"output": 'declare -- argc_a="cow"\n'}


def test_an_explicit_empty_text_satisfies_a_required_argument(bundle: ToolBundle) -> None:
    tool = bundle.tool(SHOW_ALL.format(annotations="# @option --a!"))

    assert bundle.value(tool, {"a": ""}) == {"output": 'declare -- argc_a=""\n'}


def test_variables_of_the_file_get_their_defaults(bundle: ToolBundle) -> None:
    source = """
    # @describe Variables
    # @env LLM_OUTPUT=/dev/stdout
    # @env PLAIN=p
    # @env CHOSEN[=x|y]
    # @env ASKED=`_ask`
    _ask() { echo "asked"; }
    main() { bash -c 'echo "$PLAIN $CHOSEN $ASKED"' >> "$LLM_OUTPUT"; }
    """

    assert bundle.output(source) == "p x asked\n"


def test_code_compiled_into_a_file_is_skipped(bundle: ToolBundle) -> None:
    (bundle.root / "functions" / "utils").mkdir()
    (bundle.root / "functions" / "utils" / "helper.sh").write_text("help() { echo helped; }")
    source = """\
# @describe Compiled
source "$(dirname "${BASH_SOURCE[0]}")/../utils/helper.sh"
main() { help >> "$LLM_OUTPUT"; echo "$LINENO ${BASH_SOURCE##*/}" >> "$LLM_OUTPUT"; }
# ARGC-BUILD {
main() { echo compiled >> "$LLM_OUTPUT"; }
main "$@"
# ARGC-BUILD }
echo "line $LINENO"
"""

    output = bundle.output(source)

    assert output == "helped\n3 demo.sh\n"
    assert bundle.narrated == ["line 8"]


def test_a_file_finds_its_neighbours(bundle: ToolBundle) -> None:
    (bundle.root / "functions" / "utils").mkdir()
    (bundle.root / "functions" / "utils" / "helper.sh").write_text("help() { echo helped; }")
    source = """
    # @describe Neighbours
    source "$(dirname "${BASH_SOURCE[0]}")/../utils/helper.sh"
    source "$(cd "$(dirname "$0")" && pwd)/../utils/helper.sh"
    main() { help >> "$LLM_OUTPUT"; }
    if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
    eval "$(argc --argc-eval "$0" "$@")"
    """

    assert bundle.output(source) == "helped\n"


def test_an_installed_argc_is_not_asked(
    bundle: ToolBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "argc").write_text("#!/bin/sh\necho 'exit 9'\n")
    (tmp_path / "bin" / "argc").chmod(0o755)
    bash = Path(shutil.which("bash") or "bash").parent
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{bash}:/usr/bin:/bin")
    source = SHOW_ALL.format(annotations="# @option --a")

    assert bundle.output(source, {"a": "x"}) == 'declare -- argc_a="x"\n'


def test_functions_of_an_agent_share_what_stands_before_them(bundle: ToolBundle) -> None:
    functions = bundle.own(
        """
        # @option --who=world
        # @cmd Greets
        greet() { echo "hello $argc_who" >> "$LLM_OUTPUT"; }
        # @cmd Parts
        # @option --how!
        say-bye() { echo "$argc_how $argc_who" >> "$LLM_OUTPUT"; }
        """
    )

    assert bundle.value(functions["greet"]) == {"output": "hello world\n"}
    assert bundle.value(functions["say_bye"], {"how": "bye", "who": "you"}) == {
        "output": "bye you\n"
    }


def test_an_error_ends_a_file_that_wants_so(bundle: ToolBundle) -> None:
    tool = bundle.tool("# @describe Fails\nset -e\nmain() { false; touch on; }")

    assert bundle.value(tool) == {"tool_call_error": "demo: exit code 1"}
    assert list(bundle.context.workdir.iterdir()) == []


def test_an_error_does_not_end_any_other_file(bundle: ToolBundle) -> None:
    tool = bundle.tool("# @describe Goes on\nmain() { false; echo on; }")

    assert bundle.value(tool) == "DONE"
    assert bundle.narrated == ["on"]


def test_a_file_may_be_as_strict_as_it_likes(bundle: ToolBundle) -> None:
    source = """
    # @describe Strict
    # @option --a[`_all`]
    # @option --b=`_all` <A> <B>
    # @option --c*[`_all`]
    set -euo pipefail
    shopt -s failglob nocasematch
    IFS=,
    _all() { printf 'x\\ny\\n'; false; }
    main() { echo "$argc_a ${argc_b[*]} ${argc_c[*]}" >> "$LLM_OUTPUT"; }
    """

    assert bundle.output(source, {"a": "x", "c": ["x", "y"]}) == "x x\ny x,y\n"


def test_a_file_that_cannot_be_read_by_bash_fails_the_call(bundle: ToolBundle) -> None:
    tool = bundle.tool("# @describe Broken\nmain() {\n  if\n}\n")

    value = bundle.value(tool)

    assert value["tool_call_error"] == "demo: exit code 127"
    assert "demo.sh: line 4: syntax error" in value["stderr"]
    assert "has no function 'main'" in value["stderr"]


@pytest.mark.parametrize("given", [{"words": "hi"}, {"text": "hi"}, {"words": "no", "text": "hi"}])
def test_another_name_of_a_parameter_is_understood(
    bundle: ToolBundle, given: dict[str, str]
) -> None:
    source = """
    # @describe Repeats
    # @meta alias words=text
    # @option --text!
    main() { printf '%s' "$argc_text" >> "$LLM_OUTPUT"; }
    """

    assert bundle.output(source, given) == "hi"
