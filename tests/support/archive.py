"""Runs to archive, and the archiver in a test's process."""

from __future__ import annotations

from pathlib import Path

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.service.archiving.archiver import Archiver
from sleipnir.scheduler.service.archiving.trees import Round
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says

AFTER_S = 3600.0
PLAIN = "start: z\nnodes:\n  z: {type: end, output: 'Hello {{initial_prompt}}'}\n"

GRAPH = """
start: greet
settings: {tolerate_failures: false}
nodes:
  greet: {type: llm, model: openai:m, prompt: "Hello {{initial_prompt}}", next: each}
  each: {type: map, over: "{{items}}", as: item, branch: b, collect_into: found, next: z}
  b: {type: script, script: b.sh}
  z: {type: end, output: "{{found}}"}
"""


def broken_run(engine: Engine, server: ModelServer, until: Path) -> str:
    """Run a map of which the second item fails until a file exists; all parts have something."""
    server.script.add(says("Grüße " * 200))
    fails = f"""case "$GRAPH_STATE" in *'"item":2'*) test -e {until} || exit 3;; esac"""
    files = {"b.sh": f"""{fails}; echo '{{"output": 1}}'"""}
    run_id = engine.submit(
        GRAPH, files, prompt="Ada", state={"items": [1, 2]}, labels={"team": "a"}, batch="b"
    )
    engine.drive()
    assert engine.run(run_id).status == Status.FAILED
    return run_id


def archive(engine: Engine, *, after_s: float = AFTER_S) -> Round:
    """Let time pass, and archive what is due."""
    engine.clock.move(after_s)
    assert engine.store.archive is not None
    return Archiver(engine.store, engine.store.archive).run_once(ALL_PARTITIONS)
