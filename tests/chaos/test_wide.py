"""As wide as a step may be."""

from __future__ import annotations

import pytest
import yaml

from sleipnir.graphs.limits import MAX_BRANCHES
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent

pytestmark = pytest.mark.chaos


@pytest.mark.timeout(600)
def test_a_run_with_the_widest_step_ends(engine: Engine) -> None:
    nodes = {f"n{i}": _nothing(f"r{i}", "done") for i in range(MAX_BRANCHES)}
    graph = {
        "start": "begin",
        "initial_state": {"none": []},
        "nodes": {
            "begin": _nothing("r", list(nodes)),
            **nodes,
            "branch": {"type": "llm", "prompt": "-", "model": "openai:m"},
            "done": {"type": "end", "output": "{{r0}}"},
        },
    }

    run = engine.finish(yaml.safe_dump(graph))

    assert (run.status, run.output, run.step) == ("succeeded", "[]", 3)
    assert_consistent(engine.redis, runs=1)


def _nothing(key: str, target: str | list[str]) -> dict[str, object]:
    """A node that does nothing but commit a value."""
    return {
        "type": "map",
        "over": "{{none}}",
        "as": "item",
        "branch": "branch",
        "collect_into": key,
        "next": target,
    }
