"""Results files of batches: whatever stands in one, it is taken up, or refused in one line."""

from __future__ import annotations

import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

from sleipnir.graphs.expressions.parser import parse
from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.lines import Line
from sleipnir.scheduler.batch.options import Progress
from sleipnir.scheduler.batch.reading import read_lines
from sleipnir.scheduler.batch.results.conditions import LineExpression
from sleipnir.scheduler.batch.results.file import ResultsFile
from sleipnir.scheduler.cli.progress import final_lines
from sleipnir.scheduler.errors import SubmissionRefused
from tests.support.fuzzing import EXAMPLES, assert_one_line, fuzz, mutated, respelled

FAILURE = {"node": "n", "code": "R014", "message": "no"}
RESULT: dict[str, Any] = {
    **{"id": "a", "line": 1, "run_id": run_id_of("b", "a", 1), "status": "failed", "try": 2},
    **{"output": "x", "value": None, "elapsed_s": 1.5, "agent_version": "v", "redone": 0},
    "error": {**FAILURE, "caused_by": [FAILURE]},
    "failures": [FAILURE],
    "usage": {
        **{"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost_usd": 0.1},
        **{"cached_tokens": 0, "cache_written_tokens": 0},
    },
}
EXPENSIVE = parse("error.code == 'R014' || usage.cost_usd > 1")


@EXAMPLES
def test_a_result_is_taken_up_or_refused(examples: int, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    (line,) = read_lines(io.StringIO('{"id": "a", "prompt": "p"}'), "jsonl", 1_000)
    assert isinstance(line, Line)

    def check(result: Any) -> None:
        file.write_text(json.dumps(result) + "\n")
        with Ledger() as ledger:
            ledger.add(line)
            try:
                with closing(ResultsFile(file, ledger, "b", ordered=True)) as results:
                    _take_up(ledger, results)
            except SubmissionRefused as error:
                assert_one_line(str(error))

    fuzz(examples, mutated(RESULT) | respelled(RESULT), check)


def _take_up(ledger: Ledger, results: ResultsFile) -> None:
    progress = Progress(total=1)
    for item in ledger.page("todo"):
        if item.reported is not None:
            progress.count(item.reported)
            found = results.document(item)
            list(LineExpression("--redo", EXPENSIVE).fulfilled([found]))
    list(final_lines("b", progress, ledger.reasons()))
