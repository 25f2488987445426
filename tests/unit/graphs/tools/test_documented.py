"""The examples of docs/tools.md are tools."""

from pathlib import Path

import pytest

from sleipnir.graphs.tools.reader import read_tool_file
from tests.support.pages import blocks

EXAMPLES = [
    *(("bash", "tools.sh", text) for text in blocks("tools.md", "bash")),
    *(("python", "example.py", text) for text in blocks("tools.md", "python")),
    *(("typescript", "tools.ts", text) for text in blocks("tools.md", "typescript")),
]


@pytest.mark.parametrize(("language", "name", "text"), EXAMPLES)
def test_an_example_declares_functions_and_nothing_wrong(
    language: str, name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)

    found = read_tool_file(tmp_path / name, own=name.startswith("tools."))

    assert found.findings == ()
    assert found.functions
    assert {function.language for function in found.functions} == {language}
    assert all(function.parameters["properties"] for function in found.functions)


def test_every_language_has_an_example() -> None:
    assert {language for language, _, _ in EXAMPLES} == {"bash", "python", "typescript"}
