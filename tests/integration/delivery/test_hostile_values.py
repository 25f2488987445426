"""What people, models and scripts give is data: no template, no path, no command."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.scheduler.errors import AnswerRefused
from tests.support.engine import Engine

HOSTILE = '{{secret}} $(touch pwned) `touch pwned` "; touch pwned; " ../../pwned <script>%s'

PASSES_ON = """
start: ask
initial_state: {secret: "not to be seen"}
nodes:
  ask: {type: input, question: "{{initial_prompt}}", next: see, state_updates: {said: "{{input}}"}}
  see: {type: script, script: see.sh, next: end}
  end: {type: end, output: "{{initial_prompt}}|{{said}}|{{output}}"}
"""
SEE = {
    "see.sh": """
    printf '%s' "$GRAPH_STATE" | python3 -c '
    import json, sys
    print(json.dumps({"output": json.load(sys.stdin)["said"]}))'
    """
}


def test_values_stay_what_they_are_on_their_whole_way(engine: Engine, tmp_path: Path) -> None:
    workdir = tmp_path / "work"
    workdir.mkdir()
    run_id = engine.submit(PASSES_ON, SEE, prompt=HOSTILE, workdir=str(workdir))
    engine.drive()
    (question,) = engine.queries.questions(run_id)

    engine.client.answer(run_id, HOSTILE)
    engine.drive()

    assert question.text == HOSTILE
    assert engine.run(run_id).output == "|".join([HOSTILE] * 3)
    assert list(workdir.iterdir()) == []


def test_an_answer_may_be_as_large_as_a_value(engine: Engine) -> None:
    engine.configure(value_limit_bytes=1000)
    run_id = engine.finish(PASSES_ON, SEE).run_id

    with pytest.raises(AnswerRefused, match=r"1001 bytes.*1000"):
        engine.client.answer(run_id, "x" * 1001)
    engine.client.answer(run_id, "x" * 900)

    assert engine.run(run_id).status == "running"
