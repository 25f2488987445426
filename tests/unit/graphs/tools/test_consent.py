"""Which functions may ask for consent."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.graphs.tools.consent import may_ask
from sleipnir.graphs.tools.reader import read_tool_file

BASH = r"""
source "$LLM_PROMPT_UTILS_FILE"
# @cmd Asks.
burn() { guard_operation "Burn?"; }
# @cmd Asks by a helper.
clear-out() {
  _wipe
}
# @cmd Only says guard_path in a comment.
look() {
  # guard_path would ask
  echo hello
}
_wipe() { guard_path "$x" "Wipe?"; }
"""
PYTHON = '''
from sleipnir import files, tool

def burn():
    """Asks."""
    tool.guard("Burn?")

def clear_out():
    """Asks by two helpers that call each other."""
    _wipe()

def look():
    """Does not guard anything."""
    return "guard"

def _wipe():
    _again()

def _again():
    _wipe(), files.to_write("x", "overwrite")
'''
TYPESCRIPT = """
/** Has no helper to ask with. */
export function burn() { return "guard_path"; }
"""


@pytest.mark.parametrize(
    ("name", "source", "asking"),
    [
        ("tools.sh", BASH, {"burn", "clear_out"}),
        ("tools.py", PYTHON, {"burn", "clear_out"}),
        ("tools.ts", TYPESCRIPT, set()),
    ],
)
def test_functions_that_call_a_helper_that_asks(
    tmp_path: Path, name: str, source: str, asking: set[str]
) -> None:
    file = tmp_path / name
    file.write_text(source)
    functions = read_tool_file(file, own=True).functions

    assert {function.name for function in functions if may_ask(function)} == asking
    assert len(functions) > len(asking)


def test_of_the_shipped_tools_those_that_change_something_ask() -> None:
    shipped = Path(__file__).parents[4] / "graphs" / "functions" / "tools"
    functions = [
        function
        for file in sorted(shipped.iterdir())
        if file.suffix in (".sh", ".py", ".ts")
        for function in read_tool_file(file, own=False).functions
    ]

    assert {function.name for function in functions if may_ask(function)} == {
        *(
            "execute_command",
            "execute_sql_code",
            "fs_mkdir",
            "fs_patch",
            "fs_rm",
            "fs_write",
            "git_command",
        ),
    }
