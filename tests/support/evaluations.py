"""Evaluations of agents that need no model: rows say what each version makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.testing.evaluation.batches import EvaluationBatch
from sleipnir.scheduler.testing.evaluation.file import find_evaluation, read_evaluation
from sleipnir.scheduler.testing.evaluation.rows import digest_of, read_rows
from sleipnir.scheduler.testing.evaluation.running import RowRunner, lines_of, version_of
from tests.support.engine import Engine

GRAPH: Final = """
initial_state: {text: "", one: "", two: ""}
start: sort
nodes:
  sort: {type: end, value: "{{VERSION}}", output: "sorted as {{VERSION}}"}
"""
EVALUATION: Final = """
rows: golden.csv
checks:
  - {name: label, is: "value == row.expected"}
  - {name: brevity, score: "size(output) <= 15 ? 1 : 0.5"}
gate:
  label: {drop: 0.02}
"""


def table(rows: int = 40) -> str:
    """Rows that the first version gets right, and the second one but for every fourth."""
    lines = ["id,text,one,two,expected"]
    for number in range(rows):
        right = "bill" if number % 2 else "other"
        lines.append(f"r{number},text {number},{right},{right if number % 4 else 'spam'},{right}")
    return "\n".join(lines) + "\n"


def write_sorter(
    engine: Engine, version: str, rows: str | None = None, evaluation: str = EVALUATION
) -> Path:
    """Write the agent `sorter`, of which `one` and `two` are versions, with its evaluation."""
    graph = GRAPH.replace("VERSION", version)
    files = {"evals/golden.yaml": evaluation, "evals/golden.csv": rows or table()}
    return engine.write("sorter", graph, files)


def run_rows(engine: Engine, agent: str = "sorter", name: str = "golden") -> EvaluationBatch:
    """Run the rows of an evaluation with its agent as it is now; return their batch."""
    evaluation, _ = read_evaluation(find_evaluation(engine.client.search.find(agent), name))
    assert evaluation is not None
    rows, prepared = read_rows(evaluation), engine.client.prepare(agent)
    version = version_of(engine.client, prepared)
    batch = EvaluationBatch(agent, name, version, digest_of(rows))
    runner = RowRunner(engine.client, Request(), lambda _progress: engine.drive())
    runner.run(prepared, batch.name, lines_of(rows, evaluation.given.repeat))
    return batch
