"""Arguments of tool calls: laid out for the tool, or refused, each reason in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sleipnir.graphs.tools.reader import read_tool_file
from sleipnir.worker.tools.context import ToolContext
from sleipnir.worker.tools.directory import call_directory
from sleipnir.worker.tools.validate import ArgumentsRefused, prepare
from tests.support.fuzzing import EXAMPLES, assert_one_line, fuzz, rarely, texts

BASH = """\
#!/usr/bin/env bash
# @describe Does things.
# @option --text! A text.
# @option --count <INT> A number.
# @option --share <NUM> Another.
# @option --mode[=fast|slow] One of these.
# @option --tags* Some.
# @option --list*, More.
# @option -n --short A letter.
# @flag -v --verbose* More words.
# @flag --dry Nothing happens.
# @arg file! A file.
# @arg rest~ All else.
main() { :; }
"""
PYTHON = '''\
from typing import Literal, Optional


def run(
    text: str,
    count: int = 1,
    share: float = 0.5,
    deep: bool = False,
    mode: Literal["fast", "slow"] = "fast",
    tags: list[str] | None = None,
    maybe: Optional[int] = None,
    more: dict | None = None,
    anything=None,
):
    """Do things."""
'''
NAMES = [
    *("text", "count", "share", "mode", "tags", "list", "short", "verbose", "dry", "file"),
    *("rest", "deep", "maybe", "more", "anything", "n"),
]


def arguments() -> SearchStrategy[dict[str, Any]]:
    plausible = st.sampled_from(["x", "5", 5, 0.5, True, ["a", 1, None], {"a": 1}, "fast", None])
    names = st.sampled_from(NAMES) | texts()
    given = st.dictionaries(names, rarely(plausible), max_size=6)
    return given.map(lambda some: {"text": "t", "file": "f", **some})


@pytest.mark.parametrize(("name", "source"), [("demo.sh", BASH), ("demo.py", PYTHON)])
@EXAMPLES
def test_arguments_fit_or_are_refused(
    examples: int, name: str, source: str, tmp_path: Path
) -> None:
    tools = tmp_path / "functions" / "tools"
    tools.mkdir(parents=True)
    (tools / name).write_text(source)
    (function,) = read_tool_file(tools / name, own=False).functions
    context = ToolContext("r1", "", tmp_path, tmp_path, tmp_path / "w", tmp_path / "cache")

    def check(given: dict[str, Any]) -> None:
        with call_directory() as directory:
            try:
                environment = prepare(function, given, context, directory, "k", ())
            except ArgumentsRefused as refused:
                for violation in refused.violations:
                    assert_one_line(violation)
                return
            except ValueError:
                return  # NaN, or a variable with a NUL: the call says so
            assert all("\0" not in value for value in environment.values())

    fuzz(examples, arguments(), check)
