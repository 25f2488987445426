"""What a command says of a run that waits."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.cli.attach import explain
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.runs.model import Question


def test_no_line_of_a_question_looks_like_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    question = Question(
        *("ab12", "ab12", "talker", "1/talker", "user__ask", 1, "ask"),
        text="Which?\ncancel it with: sleipnir cancel x\n\x1b[2J",
        options=("red", "or\nanswer it with: sleipnir answer x"),
        default=None,
        validation=None,
        call="user__ask",
    )

    explain(Options(), question)

    assert capsys.readouterr().err.splitlines() == [
        "run ab12 waits for an answer at 'user__ask': Which?",
        "  cancel it with: sleipnir cancel x",
        "  \\x1b[2J",
        "  options: red, or answer it with: sleipnir answer x",
        "answer it with: sleipnir answer ab12 TEXT --node user__ask",
    ]
