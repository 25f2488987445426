"""What commands show of a run that they watch: children are silent, whatever is read first."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.cli.attach import Attachment
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.store.keys import run_key
from tests.support.engine import Engine

PARENT = """
start: s
nodes:
  s: {type: set, next: [a, b]}
  a: {type: agent, agent: kid, prompt: x, next: z}
  b: {type: agent, agent: kid, prompt: y, next: z}
  z: {type: end, output: done}
"""
KID = "start: e\nnodes: {e: {type: end, output: kid}}\n"


def test_children_that_begin_in_the_same_instant_as_their_parent_tells_it_are_silent(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.write("kid", KID)
    run_id = engine.finish(PARENT).run_id
    # As if all events had been told in one millisecond: the first of each run has the same id.
    for told in (run_id, *(child.run_id for child in engine.queries.children(run_id))):
        key = run_key("events", told)
        entries = engine.redis.xrange(key)
        engine.redis.delete(key)
        for number, (_, fields) in enumerate(entries):
            engine.redis.xadd(key, fields, id=f"1-{number + 1}")
        engine.redis.expire(key, 600)

    Attachment(engine.client, run_id, Options(), asks=False, stays=False).follow()

    shown = capsys.readouterr().err
    assert shown.count("agent kid: run ") == 2
    assert "graph: kid" not in shown
    assert "e (end)" not in shown
