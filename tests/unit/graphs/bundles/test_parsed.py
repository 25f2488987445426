"""The plain form of a graph in its bundle; that all graphs come back from it is shown by
tests/language.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.bundles.parsed import PARSED, parsed_graph, parsed_text
from sleipnir.graphs.normal_agent import NormalAgent, graph_of
from sleipnir.graphs.schema import EndNode, Graph, Variable

GRAPH = Graph(name="demo", start="z", nodes={"z": EndNode(id="z", output="done")})


def test_a_normal_agent_comes_back(tmp_path: Path) -> None:
    variables = [Variable(name="tone", description="How to speak")]
    graph = graph_of(NormalAgent(model="openai:gpt-5", variables=variables), "talker")
    (tmp_path / PARSED).write_bytes(parsed_text(graph))

    assert parsed_graph(tmp_path) == graph


def test_what_nobody_wrote_is_left_out() -> None:
    node = {"id": "z", "output": "done", "type": "end"}
    assert json.loads(parsed_text(GRAPH))["graph"] == {
        "name": "demo",
        "nodes": {"z": node},
        "start": "z",
    }


@pytest.mark.parametrize(
    "change", [{"form": 0}, {"graph": {"nodes": {"z": {"type": "later"}}}}, {"graph": {"more": 1}}]
)
def test_another_version_is_read_from_its_files(change: dict[str, Any], tmp_path: Path) -> None:
    found = json.loads(parsed_text(GRAPH))
    written = {**found, **change, "graph": {**found["graph"], **change.get("graph", {})}}
    (tmp_path / PARSED).write_text(json.dumps(written))

    assert parsed_graph(tmp_path) is None
